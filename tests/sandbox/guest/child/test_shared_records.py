import mmap
import os
from collections.abc import Iterator

import pytest

from sandbox.guest.child import shared_records
from sandbox.guest.protocol.records import RECORD, SCORED, pack_record


@pytest.fixture
def shared() -> Iterator[tuple[int, mmap.mmap]]:
    """The supervisor's descriptor, and the child's memory."""
    descriptor = shared_records.make_file()
    memory = shared_records.map_file(os.dup(descriptor))
    yield descriptor, memory
    memory.close()
    os.close(descriptor)


def _fill(memory: mmap.mmap, slot: int, record: bytes) -> None:
    memory[slot * RECORD.size : (slot + 1) * RECORD.size] = record


ONE, TWO, THREE = (pack_record(SCORED, 1, score, []) for score in (1.0, 2.0, 3.0))


def test_reading_ends_at_the_first_gap(shared: tuple[int, mmap.mmap]) -> None:
    descriptor, memory = shared
    _fill(memory, 0, ONE)
    _fill(memory, 2, THREE)
    assert shared_records.read(descriptor, 0, 3) == ONE
    _fill(memory, 1, TWO)
    assert shared_records.read(descriptor, 0, 3) == ONE + TWO + THREE


def test_half_a_record_does_not_count(shared: tuple[int, mmap.mmap]) -> None:
    descriptor, memory = shared
    memory[: RECORD.size - 1] = ONE[:-1]
    assert shared_records.read(descriptor, 0, 2) == b""


def test_a_cleared_chunk_is_empty_and_the_next_is_not_touched(shared: tuple[int, mmap.mmap]) -> None:
    descriptor, memory = shared
    for slot in range(3):
        _fill(memory, slot, ONE)
    shared_records.clear(descriptor, 2)
    assert shared_records.read(descriptor, 0, 3) == b""
    assert shared_records.read(descriptor, 2, 3) == ONE


def test_the_last_slot_is_one_too(shared: tuple[int, mmap.mmap]) -> None:
    descriptor, memory = shared
    _fill(memory, shared_records.MOST - 1, ONE)
    assert shared_records.read(descriptor, shared_records.MOST - 1, shared_records.MOST) == ONE
    assert shared_records.read(descriptor, shared_records.MOST - 1, shared_records.MOST + 1) == ONE
    assert len(memory) == shared_records.FIELDS_AT + shared_records.MOST_FIELD_BYTES


def test_the_room_grows_with_the_chunk_up_to_a_bound(shared: tuple[int, mmap.mmap]) -> None:
    descriptor, _ = shared
    rooms = [shared_records.make_room(descriptor, lines) for lines in (1, 100, shared_records.MOST)]
    assert 0 < rooms[0] < rooms[1] < rooms[2] == shared_records.MOST_FIELD_BYTES
