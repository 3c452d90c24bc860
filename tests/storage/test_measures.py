"""Counts that no death of a process takes back."""

import time

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from storage.measures import COMPLETED, Measures, Process
from storage.store import Store
from tests.storage.making import accept, claim, complete_again, finish, wanted


@pytest.fixture
def measures(redis: Redis) -> Measures:
    return Measures(redis)


def process(name: str, role: str = "worker") -> Process:
    return Process(role, name, 1000, 2)


def test_counts_of_processes_that_die_stay(measures: Measures, redis: Redis) -> None:
    measures.tell(process("a:1"), {"pool:hit": 3})
    measures.tell(process("a:2"), {"pool:hit": 2, "chunk:sum": 0.5})
    measures.leave(process("a:1"))
    reading = measures.read()
    assert reading.totals == {"worker:pool:hit": 5, "worker:chunk:sum": 0.5}
    assert [one.name for one in reading.processes] == ["a:2"]


def test_a_process_that_is_silent_is_gone(measures: Measures, monkeypatch: pytest.MonkeyPatch) -> None:
    measures.tell(process("a:1"), {})
    monkeypatch.setattr(time, "time", lambda now=time.time: now() + 30)
    assert measures.read().processes == []


def test_graders_beyond_two_hundred_are_counted_together(measures: Measures, redis: Redis) -> None:
    for number in range(203):
        measures.tell(process("a:1", "api"), {f"{COMPLETED}default:g{number}:scored": 1})
    measures.tell(process("a:1", "api"), {f"{COMPLETED}default:g7:scored": 1})
    graders = measures.read().graders
    assert len(graders) == 201
    assert graders["default:g7"] == {"scored": 2}
    assert graders["rest"] == {"scored": 3}


def test_a_grader_that_was_still_for_a_day_makes_room(measures: Measures, redis: Redis) -> None:
    for number in range(200):
        measures.tell(process("a:1", "api"), {f"{COMPLETED}default:g{number}:scored": 1})
    redis.zadd("gradebox:measured", {"default:g5": time.time() - 90_000})
    measures.tell(process("a:1", "api"), {f"{COMPLETED}default:new:scored": 1})
    graders = measures.read().graders
    assert graders["default:new"] == {"scored": 1}
    assert "default:g5" not in graders


def test_reading_without_redis_raises(measures: Measures) -> None:
    away = Measures(Redis.from_url("unix:///nowhere.sock"))
    with pytest.raises(RedisConnectionError):
        away.read()


def test_what_waits_is_seen_while_it_waits(store: Store) -> None:
    exact = wanted(store, "exact")
    first, _ = accept(store, 2500, exact), accept(store, 1500, exact)
    lease = claim(store)
    reading = store.measures.read()
    assert (reading.queue.queued, reading.queue.running, reading.queue.chunks, reading.lent) == (1, 1, 4, 1)
    assert reading.queue.oldest_s > 0
    assert reading.waiting == {"default": 4000}

    store.leases.release(lease)
    assert store.measures.read().queue.chunks == 5
    assert store.measures.read().totals["given_back"] == 1

    store.batches.cancel("default", first)
    for _ in range(2):
        finish(store, claim(store))
    reading = store.measures.read()
    assert (reading.queue.queued, reading.queue.running, reading.queue.chunks, reading.lent) == (0, 0, 0, 0)
    assert reading.waiting == {}
    assert (reading.totals["accepted"], reading.totals["ended:cancelled"], reading.totals["ended:finished"]) == (
        2,
        1,
        1,
    )
    assert reading.graders["default:exact"] == {"scored": 1500, "run_ms": 750}


def test_a_unit_that_counts_once_is_measured_once(store: Store) -> None:
    accept(store, 10)
    lease = claim(store)
    assert finish(store, lease)
    assert complete_again(store, lease)
    assert store.measures.read().graders["default:exact"]["scored"] == 10
