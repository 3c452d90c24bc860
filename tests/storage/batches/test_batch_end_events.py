import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis

from storage.batches.batch_end_events import BatchEndEvents
from storage.store import Store
from tests.conftest import redis_server
from tests.storage.making import accept, claim, finish, wanted

SECONDS = 10.0


@contextmanager
def waiting(endings: BatchEndEvents, batch: str) -> Iterator[threading.Event]:
    called = threading.Event()
    with endings.calling(batch, called.set):
        called.wait(0.5)  # the call when the listener starts
        called.clear()
        yield called


def test_whoever_waits_is_called_when_the_batch_is_finished_or_cancelled(store: Store) -> None:
    batch, other = accept(store, 10, wanted(store, "a")), accept(store, 10, wanted(store, "b"))
    with waiting(store.endings, batch) as finished, waiting(store.endings, other) as cancelled:
        finish(store, claim(store))
        assert finished.wait(SECONDS)
        assert not cancelled.wait(0.1)
        store.batches.cancel("default", other)
        assert cancelled.wait(SECONDS)


def test_whoever_no_longer_waits_is_not_called(store: Store) -> None:
    batch = accept(store, 10)
    with waiting(store.endings, batch) as called:
        pass
    store.batches.cancel("default", batch)
    assert not called.wait(0.1)
    assert store.endings._waiting == {}


def test_all_are_called_when_redis_comes_back(tmp_path: Path) -> None:
    with redis_server(tmp_path) as url:
        endings = BatchEndEvents(Redis.from_url(url))
        called = threading.Event()
        with endings.calling("b1", called.set):
            assert called.wait(SECONDS)
    called.clear()
    with endings.calling("b1", called.set), redis_server(tmp_path):
        assert called.wait(SECONDS)
