import time

import pytest
from redis import Redis

from sandbox.counts import Counts
from sandbox.pool import Pool
from storage.spool import Spool
from storage.store import Store
from tests.worker.conftest import wait_until
from worker.publisher import Publisher

pytestmark = pytest.mark.sandbox


def test_a_process_tells_at_once_and_for_the_last_time_when_it_ends(store: Store, pool: Pool) -> None:
    counts = Counts()
    publisher = Publisher("worker", store, pool, counts)
    publisher.start()
    wait_until(lambda: bool(store.measures.read().processes))
    (process,) = store.measures.read().processes
    assert process.resident_bytes > 1 << 20
    counts.add("things", 2)
    publisher.end()
    reading = store.measures.read()
    assert reading.totals["worker:things"] == 2
    assert reading.processes == []


def test_what_could_not_be_told_is_told_later(store: Store, pool: Pool, redis: Redis) -> None:
    counts = Counts()
    counts.observe("chunk", 0.2)
    away = Store(Redis.from_url("unix:///nowhere.sock"), Spool("file:///nowhere"))
    publisher = Publisher("worker", away, pool, counts)
    publisher.start()
    time.sleep(0.2)
    publisher.end()
    Publisher("worker", store, pool, counts).tell()
    told = store.measures.read().totals
    assert (told["worker:chunk:sum"], told["worker:chunk:0.5"]) == (0.2, 1)
