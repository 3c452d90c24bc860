import pytest

from storage.batches import batch_threads
from storage.errors import Refused
from storage.store import Store
from tests.storage.making import accept, line


def without_last_end(number: int) -> bytes:
    return line(number) if number < 2499 else line(number).rstrip(b"\n")


def test_a_run_of_threads_is_read(store: Store) -> None:
    batch = accept(store, 2500, line=without_last_end)
    every = [line(number) for number in range(2500)]
    for after, limit in ((-1, None), (-1, 1), (-1, 1000), (5, 994), (998, 3), (2498, 9), (2499, None), (1200, None)):
        found = b"".join(batch_threads.read(store.batches, batch, after, limit))
        end = None if limit is None else after + 1 + limit
        assert found == b"".join(every[after + 1 : end]), (after, limit)


def test_threads_are_picked_in_the_order_that_is_asked_for(store: Store) -> None:
    batch = accept(store, 2500, line=without_last_end)
    wanted = [2499, 0, 999, 1000, 998, 0, 1500]
    found = b"".join(batch_threads.read_picked(store.batches, batch, wanted))
    assert found == b"".join(map(line, wanted))


def test_a_thread_that_is_not_there_is_refused_before_any_is_read(store: Store) -> None:
    batch = accept(store, 3)
    with pytest.raises(Refused, match="has no thread 3, 9: its 3 threads are 0 to 2"):
        next(batch_threads.read_picked(store.batches, batch, [0, 3, 9]))
