import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis

from storage.batches import batch_end_events
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


def test_a_quiet_connection_is_kept_and_one_that_died_without_a_word_is_replaced(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_end_events, "_LISTEN_S", 0.1)
    monkeypatch.setattr(batch_end_events, "_AGAIN_S", 0.1)
    batch = accept(store, 10)
    with waiting(store.endings, batch) as called:
        assert not called.wait(0.5)  # it was not replaced
        (subscribed,) = store.endings._pool._in_use_connections
        ours, theirs = socket.socketpair()
        with ours, theirs:  # nobody answers at its other end
            os.dup2(ours.fileno(), subscribed._sock.fileno())
            assert called.wait(SECONDS)  # for it may have missed the end of the batch
        called.clear()
        store.batches.cancel("default", batch)
        assert called.wait(SECONDS)
