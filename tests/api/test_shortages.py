"""Tests of the warnings about batches that wait for a worker, and about a Redis or spool without room."""

import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
from redis import Redis

from api.shortages import GRACE_S, Shortages
from storage.batch_plan import Lane
from storage.processes import ROLES, ProcessRecord
from storage.spool.spool import Spool
from storage.store import Store
from tests.api.conftest import Service
from tests.storage.making import accept, full, wanted

ASKS = ("model:small-judge",)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [time.monotonic()]
    monkeypatch.setattr("api.shortages.time.monotonic", lambda: now[0])
    return now


def told(shortages: Shortages) -> list[str]:
    return list(shortages.known)


@pytest.mark.parametrize(
    ("lane", "asks", "to_start"),
    [("asking", ASKS, "`gradebox worker --queue asking`"), ("", (), "start one with `gradebox worker`")],
)
def test_batches_that_wait_for_no_worker_are_told_with_what_to_start(
    store: Store,
    clock: list[float],
    caplog: pytest.LogCaptureFixture,
    lane: Lane,
    asks: Sequence[str],
    to_start: str,
    tmp_path: Path,
) -> None:
    other: Lane = "" if lane else "asking"
    store.processes.report(ProcessRecord(ROLES[other], "host:1"))  # this worker does not score these batches
    asking_file = tmp_path / "asking"
    shortages = Shortages(store, asking_file)
    shortages.look()
    assert not asking_file.exists()
    accept(store, 10, wanted(store, "g", asks=asks))
    shortages.look()
    assert asking_file.exists() == (lane == "asking")
    assert told(shortages) == []  # the worker may be starting
    clock[0] += GRACE_S
    for _ in range(3):
        shortages.look()
    assert [to_start in said for said in told(shortages)] == [True]
    assert [to_start in record.message for record in caplog.records if record.levelname == "WARNING"] == [True]
    with full(store.redis):  # workers cannot report
        shortages.look()
    assert ["maxmemory" in said for said in told(shortages)] == [True]
    store.processes.report(ProcessRecord(ROLES[lane], "host:2"))
    shortages.look()
    assert told(shortages) == []


@pytest.mark.parametrize(("lane", "asks"), [("asking", ASKS), ("", ())])
def test_a_batch_whose_chunks_are_all_with_a_worker_that_died_is_told(
    store: Store, clock: list[float], lane: Lane, asks: Sequence[str]
) -> None:
    shortages = Shortages(store)
    batch_id = accept(store, 1, wanted(store, "g", asks=asks))
    assert store.leases.claim(lane=lane)
    for _ in range(2):
        shortages.look()
        clock[0] += GRACE_S
    assert [f"no worker{' for them' if lane else ''} is running" in said for said in told(shortages)] == [True]
    store.batches.cancel("default", batch_id)  # it needs no worker, though its lease is there until one looks
    shortages.look()
    assert told(shortages) == []


def test_why_workers_cannot_work_is_told(store: Store, clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    shortages = Shortages(store)
    store.processes.report(ProcessRecord("worker", "host:1", trouble="no sandbox can be started: the engine hangs"))
    shortages.look()
    assert told(shortages) == []
    clock[0] += GRACE_S
    shortages.look()
    assert told(shortages) == [
        "no worker of the queue `plain` can work: no sandbox can be started: the engine hangs (host:1)"
    ]
    for silent_s in (10, 15):
        store.processes.report(ProcessRecord("worker", "host:1", trouble=f"not renewed for {silent_s} s"))
        shortages.look()
    assert "15 s" in told(shortages)[0]
    assert len(caplog.records) == 1
    store.processes.report(ProcessRecord("worker", "host:2"))
    shortages.look()
    assert told(shortages) == []


def test_nothing_is_missing_where_nothing_waits(store: Store, clock: list[float]) -> None:
    shortages = Shortages(store)
    for _ in range(2):
        shortages.look()
        clock[0] += GRACE_S
    assert told(shortages) == []


def test_a_full_redis_is_told_before_anything_waits(store: Store) -> None:
    shortages = Shortages(store)
    with full(store.redis):
        shortages.look()
    assert ["maxmemory" in said for said in told(shortages)] == [True]
    shortages.look()
    assert told(shortages) == []


@pytest.mark.parametrize(("folder", "is_told"), [("", True), ("/gone", False)])
def test_a_full_spool_is_told_unless_it_is_away(redis: Redis, tmp_path: Path, folder: str, is_told: bool) -> None:
    shortages = Shortages(Store(redis, Spool(f"file://{tmp_path}{folder}", reserve=1 << 60)))
    shortages.look()
    assert ["GRADEBOX_RESERVE_MB" in said for said in told(shortages)] == [True] * is_told


@pytest.mark.sandbox
def test_readyz_says_so_and_stays_ready_for_all_else(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.services.shortages, "known", ("no worker",))
    answer = httpx.get(f"{service.url}/readyz")
    assert (answer.status_code, answer.json()) == (200, {"status": "up", "warnings": ["no worker"]})
    wrong_key = httpx.get(f"{service.url}/readyz", headers={"Authorization": "Bearer wrong"})
    assert wrong_key.json() == {"status": "up"}
