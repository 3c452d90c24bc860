"""What a supervisor takes for told, of slots that a child has filled."""

import mmap
import os
import socket
from collections.abc import Iterator
from typing import cast

import pytest

from gradebox.limits import LINE_BYTES
from sandbox.grader_source import GraderSource
from sandbox.guest.child import output, shared_records
from sandbox.guest.child.main import DONE, SHARE
from sandbox.guest.protocol.chunk import Chunk
from sandbox.guest.protocol.frames import (
    BATCH,
    ELSEWHERE,
    MARK,
    MAX_FIELDS,
    RECORD,
    SCORED,
    Malformed,
    Records,
    pack_record,
)
from sandbox.guest.supervisor.chunk_run import ChunkRun
from sandbox.guest.supervisor.processes import ChildHandle, GraderProcesses
from sandbox.limits import STDOUT_BYTES, limits_of

LIMITS = limits_of(GraderSource(""), 1.0, LINE_BYTES, STDOUT_BYTES)._replace(isolation=BATCH)
RECORDS = [pack_record(SCORED, 1, float(number), []) for number in range(4)]


def _heads(told: list[Records]) -> bytes:
    return b"".join(records.heads for records in told)


def _bodies(told: list[Records]) -> bytes:
    return b"".join(records.bodies for records in told)


class _Processes:
    """As a supervisor asks it; its template says nothing."""

    def __init__(self) -> None:
        self.control, self._other = socket.socketpair()

    def crowded(self) -> bool:
        return False

    def close(self) -> None:
        self.control.close()
        self._other.close()


@pytest.fixture
def processes() -> Iterator[_Processes]:
    made = _Processes()
    yield made
    made.close()


@pytest.fixture
def ends() -> Iterator[tuple[ChildHandle, socket.socket, mmap.mmap]]:
    """The supervisor's ends of a child; and the child's channel and memory."""
    ours, theirs = socket.socketpair()
    results, results_in = os.pipe2(os.O_NONBLOCK)
    printed, printed_in = output.make_pipe()
    child = ChildHandle(results, printed, ours, shared_records.make_file())
    memory = shared_records.map_file(os.dup(child.slots))
    yield child, theirs, memory
    child.close()
    theirs.close()
    memory.close()
    os.close(results_in)
    os.close(printed_in)


@pytest.mark.parametrize(("said", "counted"), [(b"p0000002", 2), (b"p0000001p0000003", 3), (b"d", 4), (b"", 0)])
def test_a_slot_counts_when_the_child_says_so_and_not_by_its_mark(
    said: bytes, counted: int, processes: _Processes, ends: tuple[ChildHandle, socket.socket, mmap.mmap]
) -> None:
    child, theirs, memory = ends
    memory[: 4 * RECORD.size] = b"".join(RECORDS)
    theirs.sendall(said)
    told: list[Records] = []
    run = ChunkRun(
        cast(GraderProcesses, processes), LIMITS._replace(timeout_ms=100), Chunk(4, 12, None, -1), told.append
    )
    run._share = 4
    failure = run._watch(child)
    assert theirs.recv(SHARE.size) == SHARE.pack(4, 0, 12, True, True, 0)
    assert _heads(told) == b"".join(RECORDS[:counted])
    assert (failure is None) == (said == DONE)
    if failure is not None:  # it did no more, though it was seen to go on: what it had done is not lost
        run._collect(child, settled=True)
        assert _heads(told) == b"".join(RECORDS)


Ends = tuple[ChildHandle, socket.socket, mmap.mmap]


class _Chunk:
    """Four lines, told as far as the child says that they are done."""

    def __init__(self, processes: _Processes, ends: Ends) -> None:
        self.child, _, self._memory = ends
        self.told: list[Records] = []
        self._run = ChunkRun(cast(GraderProcesses, processes), LIMITS, Chunk(4, 12, None, -1), self.told.append)
        self._run._share = 4
        self._run._room = shared_records.make_room(self.child.slots, 4)
        self.room = self._run._room

    def fill(self, first: int, *heads: bytes) -> None:
        self._memory[first * RECORD.size : (first + len(heads)) * RECORD.size] = b"".join(heads)

    def write(self, start: int, fields: bytes) -> None:
        self._memory[shared_records.FIELDS_AT + start : shared_records.FIELDS_AT + start + len(fields)] = fields

    def pipe(self, data: bytes) -> None:
        self._run._data += data

    def report(self, filled: int) -> None:
        self._run._filled = filled
        self._run._collect(self.child, settled=False)

    def settle(self) -> None:
        self._run._collect(self.child, settled=True)


@pytest.fixture
def chunk(processes: _Processes, ends: Ends) -> _Chunk:
    return _Chunk(processes, ends)


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
    chunk.fill(2, _head(0), _head(0))  # beyond a gap: it is no other line's
    chunk.report(9_999_999)
    chunk.settle()
    assert _heads(chunk.told) == _head(0)


@pytest.mark.parametrize("length", [2**32 - 1, 2**31, 1 << 20, shared_records.MOST_FIELD_BYTES])
def test_a_forged_length_costs_those_before_it_nothing(length: int, chunk: _Chunk) -> None:
    chunk.write(0, b"aaa")
    chunk.fill(0, _head(3, 0.1), _head(length, 0.9), _head(0, 0.9))
    with pytest.raises(Malformed):
        chunk.settle()
    assert chunk.told == [Records(_head(3, 0.1), b"aaa")]


def test_lengths_that_exceed_the_room_together(chunk: _Chunk) -> None:
    chunk.fill(0, *[_head(chunk.room // 2)] * 4)
    with pytest.raises(Malformed):
        chunk.settle()
    assert [records.number for records in chunk.told] == [2]
    assert len(chunk.told[0].bodies) == chunk.room


def test_records_of_slots_and_of_the_pipe_are_told_in_order(chunk: _Chunk) -> None:
    elsewhere = RECORD.pack(0, 0.0, 0, MARK | ELSEWHERE)
    chunk.write(0, b"aaazz")
    chunk.fill(0, _head(3, 0.1), elsewhere, elsewhere, _head(2, 0.4))
    chunk.pipe(_head(4, 0.2) + b"pppp" + _head(1, 0.3)[:7])
    chunk.settle()
    assert chunk.told == [Records(_head(3, 0.1) + _head(4, 0.2), b"aaapppp")]
    chunk.pipe(_head(1, 0.3)[7:] + b"q")
    chunk.settle()
    assert chunk.told[1] == Records(_head(1, 0.3) + _head(2, 0.4), b"qzz")


def test_a_record_of_the_pipe_that_claims_too_much(chunk: _Chunk) -> None:
    chunk.fill(0, _head(0, 0.1), RECORD.pack(0, 0.0, 0, MARK | ELSEWHERE))
    chunk.pipe(_head(MAX_FIELDS + 1, 0.9))
    with pytest.raises(Malformed):
        chunk.settle()
    assert _heads(chunk.told) == _head(0, 0.1)
