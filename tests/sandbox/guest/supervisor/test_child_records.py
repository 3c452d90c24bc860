"""Tests of how a supervisor collects records from a child's slots and pipe."""

import os
from collections.abc import Iterator

import pytest

from gradebox.limits import LINE_BYTES
from sandbox.grader_source import GraderSource
from sandbox.guest.child import shared_records
from sandbox.guest.protocol.chunk import SentChunk
from sandbox.guest.protocol.fields import MAX_FIELDS, MAX_REQUESTS, STDOUT, Malformed, pack_fields
from sandbox.guest.protocol.frames import MAX_REPLY
from sandbox.guest.protocol.grader_limits import BATCH
from sandbox.guest.protocol.records import ELSEWHERE, MARK, RECORD, SCORED, Records, pack_records
from sandbox.guest.supervisor.child_records import ChildRecords
from sandbox.guest.supervisor.processes import ChildHandle
from sandbox.limits import STDOUT_BYTES, limits_of

ROOM = 1024  # bytes of the fields of four lines
LIMITS = limits_of(GraderSource(""), 1.0, LINE_BYTES, STDOUT_BYTES)._replace(isolation=BATCH)


def _heads(told: list[Records]) -> bytes:
    return b"".join(records.heads for records in told)


def _bodies(told: list[Records]) -> bytes:
    return b"".join(records.bodies for records in told)


class _Chunk:
    """A chunk. `told` are the records that are passed on."""

    def __init__(self, results: int, lines: int = 4) -> None:
        self.told: list[Records] = []
        self._child = ChildHandle(results, -1, None, shared_records.make_file())
        self._memory = shared_records.map_file(os.dup(self._child.slots))
        self.records = ChildRecords(LIMITS, SentChunk(lines, 3 * lines, None, -1), self.told.append)
        self.begin()
        self.room = self.records.room

    def begin(self) -> None:
        self.records.begin(self._child)

    def close(self) -> None:
        self._memory.close()
        os.close(self._child.slots)

    def fill(self, first: int, *heads: bytes) -> None:
        self._memory[first * RECORD.size : (first + len(heads)) * RECORD.size] = b"".join(heads)

    def write(self, start: int, fields: bytes) -> None:
        self._memory[shared_records.FIELDS_AT + start : shared_records.FIELDS_AT + start + len(fields)] = fields

    def report(self, filled: int) -> None:
        self.records.note_filled(filled)
        self.records.collect(self._child, settled=False)

    def settle(self) -> None:
        self.records.collect(self._child, settled=True)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe2(os.O_NONBLOCK)
    yield ends
    for end in ends:
        os.close(end)


@pytest.fixture
def chunk(pipe: tuple[int, int]) -> Iterator[_Chunk]:
    made = _Chunk(pipe[0])
    yield made
    made.close()


def _head(length: int, score: float = 0.5) -> bytes:
    return RECORD.pack(1, score, length, MARK | SCORED)


def test_fields_belong_to_the_record_whose_slot_has_their_length(chunk: _Chunk) -> None:
    chunk.write(0, b"aaabbbbb")
    chunk.fill(0, _head(3, 0.1), _head(0, 0.2), _head(5, 0.3))
    chunk.report(1)
    assert chunk.told == [Records(_head(3, 0.1), b"aaa")]
    chunk.report(3)
    assert chunk.told[1] == Records(_head(0, 0.2) + _head(5, 0.3), b"bbbbb")


def test_what_is_changed_after_it_was_reported_is_not_read_again(chunk: _Chunk) -> None:
    chunk.write(0, b"aaabbb")
    chunk.fill(0, _head(3, 0.1), _head(3, 0.2))
    chunk.report(2)
    chunk.write(0, b"xxxxxxccc")
    chunk.fill(0, _head(0, 0.9), _head(200, 0.9), _head(3, 0.3), _head(0, 0.4))
    chunk.report(4)
    assert _heads(chunk.told) == _head(3, 0.1) + _head(3, 0.2) + _head(3, 0.3) + _head(0, 0.4)
    assert _bodies(chunk.told) == b"aaabbbccc"


def test_a_report_counts_no_slot_that_is_not_filled(chunk: _Chunk) -> None:
    chunk.fill(0, _head(0))
    chunk.fill(2, _head(0), _head(0))  # behind a gap, so not counted
    chunk.report(9_999_999)
    chunk.settle()
    assert _heads(chunk.told) == _head(0)


@pytest.mark.parametrize(
    "forged",
    [
        *(_head(length, 0.9) for length in (2**32 - 1, 2**31, 1 << 20, shared_records.MOST_FIELD_BYTES)),
        _head(ROOM - 2, 0.9),  # one byte too many, behind the fields of the record before it
        RECORD.pack(1, 0.9, 0, MARK ^ 1 << 8 | SCORED),
    ],
)
@pytest.mark.parametrize("behind", [_head(0, 0.9), _head(2**32 - 1, 0.9)])
def test_a_forged_head_costs_those_before_it_nothing(forged: bytes, behind: bytes, chunk: _Chunk) -> None:
    chunk.write(0, b"aaa")
    chunk.fill(0, _head(3, 0.1), forged, behind)
    assert chunk.room == ROOM
    with pytest.raises(Malformed):
        chunk.settle()
    assert chunk.told == [Records(_head(3, 0.1), b"aaa")]


@pytest.mark.parametrize("before", [0, 1])
def test_lengths_that_exceed_the_room_together(before: int, chunk: _Chunk) -> None:
    chunk.fill(0, *[_head(chunk.room // 2)] * 3)
    chunk.report(before)
    with pytest.raises(Malformed):
        chunk.settle()
    assert sum(records.number for records in chunk.told) == 2
    assert len(_bodies(chunk.told)) == chunk.room


def test_records_of_slots_and_of_the_pipe_are_told_in_order(chunk: _Chunk, pipe: tuple[int, int]) -> None:
    elsewhere = RECORD.pack(0, 0.0, 0, MARK | ELSEWHERE)
    chunk.write(0, b"aaazz")
    chunk.fill(0, _head(3, 0.1), elsewhere, elsewhere, _head(2, 0.4))
    os.write(pipe[1], _head(4, 0.2) + b"pppp" + _head(1, 0.3)[:7])
    chunk.settle()
    assert chunk.told == [Records(_head(3, 0.1) + _head(4, 0.2), b"aaapppp")]
    os.write(pipe[1], _head(1, 0.3)[7:] + b"q")
    chunk.settle()
    assert chunk.told[1] == Records(_head(1, 0.3) + _head(2, 0.4), b"qzz")


def test_a_record_of_the_pipe_that_claims_too_much(chunk: _Chunk, pipe: tuple[int, int]) -> None:
    chunk.fill(0, _head(0, 0.1), RECORD.pack(0, 0.0, 0, MARK | ELSEWHERE))
    os.write(pipe[1], _head(MAX_FIELDS + 1, 0.9))
    with pytest.raises(Malformed):
        chunk.settle()
    assert _heads(chunk.told) == _head(0, 0.1)


def test_records_that_one_frame_cannot_hold_go_in_two(pipe: tuple[int, int]) -> None:
    """A record of asks may take half a frame."""
    chunk = _Chunk(pipe[0], lines=shared_records.MOST)
    elsewhere = RECORD.pack(0, 0.0, 0, MARK | ELSEWHERE)
    of_slot, of_asks, more = b"s" * chunk.room, b"a" * MAX_REQUESTS, b"m" * (MAX_REPLY // 4)
    told = memoryview(_head(len(of_asks), 0.2) + of_asks + _head(len(more), 0.3) + more)
    while told:
        told = told[os.write(pipe[1], told) :]
        chunk.settle()
    chunk.write(0, of_slot)
    chunk.fill(0, _head(len(of_slot), 0.1), elsewhere, elsewhere)
    chunk.settle()
    chunk.close()
    assert [records.number for records in chunk.told] == [2, 1]
    assert _heads(chunk.told) == _head(len(of_slot), 0.1) + _head(len(of_asks), 0.2) + _head(len(more), 0.3)
    assert _bodies(chunk.told) == of_slot + of_asks + more
    assert all(len(pack_records(records)) <= MAX_REPLY for records in chunk.told)


def test_output_that_was_kept_of_a_line_is_in_its_record_alone(chunk: _Chunk) -> None:
    chunk.records.keep_output(2, b"first ")
    chunk.records.keep_output(2, b"second ")
    fields = pack_fields([(STDOUT, b"third")])
    chunk.write(0, fields)
    chunk.fill(0, _head(0, 0.1), _head(0, 0.2), _head(len(fields), 0.3), _head(0, 0.4))
    chunk.settle()
    whole = pack_fields([(STDOUT, b"first second third")])
    assert _heads(chunk.told) == _head(0, 0.1) + _head(0, 0.2) + _head(len(whole), 0.3) + _head(0, 0.4)
    assert _bodies(chunk.told) == whole


def test_output_that_was_kept_is_forgotten_with_its_child(chunk: _Chunk) -> None:
    chunk.records.keep_output(0, b"of a child that leaves the line to another one")
    chunk.begin()
    chunk.fill(0, *[_head(0)] * 4)
    chunk.settle()
    assert _bodies(chunk.told) == b""
