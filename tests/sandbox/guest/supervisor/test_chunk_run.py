"""Tests of which of a child's filled slots a supervisor counts."""

import mmap
import os
import socket
from collections.abc import Iterator
from typing import cast

import pytest

from gradebox.limits import LINE_BYTES
from sandbox.grader_source import GraderSource
from sandbox.guest.child import output, shared_records
from sandbox.guest.child.main import DONE, LEAVING, SHARE
from sandbox.guest.protocol.chunk import SentChunk
from sandbox.guest.protocol.grader_limits import BATCH
from sandbox.guest.protocol.records import RECORD, SCORED, Records, pack_record
from sandbox.guest.supervisor.chunk_run import ChunkRun
from sandbox.guest.supervisor.processes import ChildHandle, GraderProcesses
from sandbox.limits import STDOUT_BYTES, limits_of

LIMITS = limits_of(GraderSource(""), 1.0, LINE_BYTES, STDOUT_BYTES)._replace(isolation=BATCH)
RECORDS = [pack_record(SCORED, 1, float(number), []) for number in range(4)]


def _heads(told: list[Records]) -> bytes:
    return b"".join(records.heads for records in told)


class _Processes:
    """Replaces GraderProcesses. Its template sends nothing."""

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
    """The supervisor's ends of a child, and the child's channel and memory."""
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


def _run(processes: _Processes, told: list[Records]) -> ChunkRun:
    """A run of four lines."""
    limits, sent = LIMITS._replace(timeout_ms=100), SentChunk(4, 12, None, -1)
    run = ChunkRun(cast(GraderProcesses, processes), limits, sent, told.append, lambda: None)
    run._records.share = 4
    return run


@pytest.mark.parametrize(("said", "counted"), [(b"p0000002", 2), (b"p0000001p0000003", 3), (b"d", 4), (b"", 0)])
def test_a_slot_counts_when_the_child_says_so_and_not_by_its_mark(
    said: bytes, counted: int, processes: _Processes, ends: tuple[ChildHandle, socket.socket, mmap.mmap]
) -> None:
    child, theirs, memory = ends
    memory[: 4 * RECORD.size] = b"".join(RECORDS)
    theirs.sendall(said)
    told: list[Records] = []
    run = _run(processes, told)
    came_to = run._watch(child, is_new=True)
    assert theirs.recv(SHARE.size) == SHARE.pack(4, 0, 12, True, True, 0)
    assert _heads(told) == b"".join(RECORDS[:counted])
    assert (came_to is True) == (said == DONE)
    if came_to is not True:  # records that the child has not reported are not lost
        run._collect(child, settled=True)
        assert _heads(told) == b"".join(RECORDS)


@pytest.mark.parametrize(("is_new", "told"), [(True, 0), (True, 2), (False, 0)])
def test_a_new_child_that_leaves_has_done_something(
    is_new: bool, told: int, processes: _Processes, ends: tuple[ChildHandle, socket.socket, mmap.mmap]
) -> None:
    """Else any number of children could be started for one line."""
    child, theirs, memory = ends
    memory[: told * RECORD.size] = b"".join(RECORDS[:told])
    theirs.sendall(LEAVING)
    run = _run(processes, [])
    came_to = run._watch(child, is_new)
    assert (came_to is False) == (told > 0 or not is_new)
    assert run._records.passed_on == told
