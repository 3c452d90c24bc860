"""Tests of the warnings about batches that wait for a missing worker."""

import time
from collections.abc import Sequence

import httpx
import pytest

from api.missing_workers import GRACE_S, MissingWorkers
from storage.batch_plan import Lane
from storage.processes import ROLES, ProcessRecord
from storage.store import Store
from tests.api.conftest import Service
from tests.storage.making import accept, full, wanted

ASKS = ("model:small-judge",)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [time.monotonic()]
    monkeypatch.setattr("api.missing_workers.time.monotonic", lambda: now[0])
    return now


def told(missing: MissingWorkers) -> list[str]:
    return list(missing.known)


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
) -> None:
    other: Lane = "" if lane else "asking"
    store.processes.report(ProcessRecord(ROLES[other], "host:1"))  # this worker does not score these batches
    missing = MissingWorkers(store)
    accept(store, 10, wanted(store, "g", asks=asks))
    missing.look()
    assert told(missing) == []  # the worker may be starting
    clock[0] += GRACE_S
    for _ in range(3):
        missing.look()
    assert [to_start in said for said in told(missing)] == [True]
    assert [to_start in record.message for record in caplog.records if record.levelname == "WARNING"] == [True]
    with full(store.redis):  # workers cannot report
        missing.look()
    assert ["`maxmemory`" in said for said in told(missing)] == [True]
    store.processes.report(ProcessRecord(ROLES[lane], "host:2"))
    missing.look()
    assert told(missing) == []


def test_nothing_is_missing_where_nothing_waits(store: Store, clock: list[float]) -> None:
    missing = MissingWorkers(store)
    for _ in range(2):
        missing.look()
        clock[0] += GRACE_S
    assert told(missing) == []


@pytest.mark.sandbox
def test_readyz_says_so_and_stays_ready_for_all_else(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.services.missing_workers, "known", ("no worker",))
    answer = httpx.get(f"{service.url}/readyz")
    assert (answer.status_code, answer.json()) == (200, {"status": "up", "warnings": ["no worker"]})
    wrong_key = httpx.get(f"{service.url}/readyz", headers={"Authorization": "Bearer wrong"})
    assert wrong_key.json() == {"status": "up"}
