import mmap
import os
from collections.abc import Iterator

import pytest

from sandbox.guest import slots
from sandbox.guest.frames import ELSEWHERE, RECORD, SCORED, pack_record


@pytest.fixture
def shared() -> Iterator[tuple[int, mmap.mmap]]:
    """The supervisor's descriptor, and the child's memory."""
    descriptor = slots.make_file()
    memory = slots.map_file(os.dup(descriptor))
    yield descriptor, memory
    memory.close()
    os.close(descriptor)


def _fill(memory: mmap.mmap, slot: int, record: bytes) -> None:
    memory[slot * RECORD.size : (slot + 1) * RECORD.size] = record


ONE, TWO, THREE = (pack_record(SCORED, 1, score, []) for score in (1.0, 2.0, 3.0))
OTHER = pack_record(ELSEWHERE, 0, 0.0, [])


def test_nothing_is_read_before_it_is_filled(shared: tuple[int, mmap.mmap]) -> None:
    descriptor, memory = shared
    assert slots.read(descriptor, 0, slots.MOST) == b""
    _fill(memory, 0, ONE)
    assert slots.read(descriptor, 0, slots.MOST) == ONE
    _fill(memory, 1, TWO)
    assert slots.read(descriptor, 1, slots.MOST) == TWO
    assert slots.read(descriptor, 0, 1) == ONE


def test_reading_ends_at_the_first_gap(shared: tuple[int, mmap.mmap]) -> None:
    descriptor, memory = shared
    _fill(memory, 0, ONE)
    _fill(memory, 2, THREE)
    assert slots.read(descriptor, 0, 3) == ONE
    _fill(memory, 1, TWO)
    assert slots.read(descriptor, 0, 3) == ONE + TWO + THREE


def test_half_a_record_does_not_count(shared: tuple[int, mmap.mmap]) -> None:
    descriptor, memory = shared
    memory[: RECORD.size - 1] = ONE[:-1]
    assert slots.read(descriptor, 0, 2) == b""


def test_a_cleared_chunk_is_empty_and_the_next_is_not_touched(shared: tuple[int, mmap.mmap]) -> None:
    descriptor, memory = shared
    for slot in range(3):
        _fill(memory, slot, ONE)
    slots.clear(descriptor, 2)
    assert slots.read(descriptor, 0, 3) == b""
    assert slots.read(descriptor, 2, 3) == ONE


def test_the_last_slot_is_one_too(shared: tuple[int, mmap.mmap]) -> None:
    descriptor, memory = shared
    _fill(memory, slots.MOST - 1, ONE)
    assert slots.read(descriptor, slots.MOST - 1, slots.MOST) == ONE
    assert slots.read(descriptor, slots.MOST - 1, slots.MOST + 1) == ONE
    assert len(memory) == slots.MOST * RECORD.size


@pytest.mark.parametrize(
    ("data", "count"), [(b"", 0), (ONE, 1), (ONE + TWO, 2), (OTHER + ONE, 0), (ONE + OTHER + TWO, 1)]
)
def test_plain_are_those_before_one_that_came_another_way(data: bytes, count: int) -> None:
    assert slots.plain(data) == count
