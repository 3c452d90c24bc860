"""Tests that processes report that they run."""

import time
from pathlib import Path

import pytest
from redis import Redis

from runtime import thread_failures
from storage import processes, redis_keys
from storage.connection import seconds
from storage.processes import Presence, Processes, ProcessRecord
from tests.waiting import eventually


def test_a_process_is_there_from_its_start_to_its_end(redis: Redis) -> None:
    known = Processes(redis)
    presence = Presence(known, "worker", lambda: "no sandbox can be started")
    presence.start()
    eventually(lambda: bool(known.workers()), 10)
    (record,) = known.workers()
    assert (record.role, record.trouble) == ("worker", "no sandbox can be started")
    presence.end()
    assert known.there() == []


def test_a_thread_that_ended_is_told(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_failures, "_ended", ["heartbeat (KeyError)"])
    known = Processes(redis)
    presence = Presence(known, "api", lambda: None)
    presence.start()
    eventually(lambda: bool(known.there()), 10)
    assert "heartbeat (KeyError)" in known.there()[0].trouble
    presence.end()


def test_a_process_that_is_silent_is_gone(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Processes(redis)
    known.report(ProcessRecord("worker", "a:1"))
    _set_clock(monkeypatch, 30)
    known.report(ProcessRecord("worker", "a:2"))
    assert [record.name for record in known.there()] == ["a:2"]
    assert redis.hlen(redis_keys.PROCESSES) == 2
    known.forget_silent()
    assert redis.hlen(redis_keys.PROCESSES) == 1


def test_a_dead_process_is_gone_although_the_clock_was_set_back(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Processes(redis)
    known.report(ProcessRecord("worker", "a:1"))
    _set_clock(monkeypatch, -3600)
    assert known.there() == []


def test_a_machine_whose_clock_differs_has_workers(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as other:
        other.setattr(time, "time", lambda: 0.0)
        Processes(redis).report(ProcessRecord("worker", "a:1"))
    assert [record.name for record in Processes(redis).workers()] == ["a:1"]


def _set_clock(monkeypatch: pytest.MonkeyPatch, by_s: float) -> None:
    """Sets the clock of Redis forward or back."""
    monkeypatch.setattr(processes, "seconds", lambda redis: seconds(redis) + by_s)


def test_a_redis_that_is_away_ends_nothing(tmp_path: Path, redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "TELL_S", 0.05)
    known = Processes(Redis.from_url(f"unix://{tmp_path}/nothing.sock"))
    presence = Presence(known, "worker", lambda: None)
    presence.start()
    time.sleep(0.2)
    known._redis = redis
    eventually(lambda: bool(known.there()), 10)
    presence.end()
