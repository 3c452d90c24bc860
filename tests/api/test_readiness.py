"""Tests of the answers of /readyz, their readers and their cost."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from redis import Redis

from api.readiness import Readiness
from runtime import thread_failures
from sandbox.pool.pool import Pool
from storage.store import Store
from tests.api.conftest import Service
from tests.api.in_process import asked, without_redis
from tests.waiting import eventually

pytestmark = pytest.mark.sandbox


@pytest.fixture
def store(store: Store) -> Store:
    """A store with an API key, as after the first start."""
    store.api_keys.create("first", ["*"])
    return store


def test_a_thousand_calls_look_once(store: Store, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    monkeypatch.setattr(store.spool, "check", lambda: looks.append(1))
    readiness = Readiness(store, pool)
    assert [readiness.troubles() for _ in range(1000)] == [()] * 1000
    assert len(looks) == 1
    monkeypatch.setattr(readiness, "_looked_at", time.monotonic() - 2)
    assert readiness.troubles() == ()
    assert len(looks) == 2


def test_who_asks_while_somebody_looks_does_not_wait(store: Store, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, goes_on = threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        goes_on.wait(30)

    readiness = Readiness(store, pool)
    assert readiness.troubles() == ()
    monkeypatch.setattr(store.spool, "check", hang)
    monkeypatch.setattr(readiness, "_looked_at", time.monotonic() - 20)
    with ThreadPoolExecutor() as other:
        looking = other.submit(readiness.troubles)
        assert hangs.wait(30)
        assert readiness.troubles() == ()  # nobody asked for 20 s, which is no trouble
        monkeypatch.setattr(readiness, "_began_at", time.monotonic() - 20)
        assert "20 s ago" in readiness.troubles()[0]
        assert readiness.redis_answers  # it is the spool that hangs
        goes_on.set()
        assert looking.result() == ()


def test_a_redis_that_hangs_is_told_in_time(
    service: Service, secret: str, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    readiness = service.services.readiness
    monkeypatch.setattr("api.readiness.LATE_S", 0.2)
    httpx.get(f"{service.url}/readyz")
    redis.client_pause(1200)
    started = time.monotonic()
    for headers, told in (
        ({}, ["the check that began 0 s ago has not finished"]),
        ({"Authorization": f"Bearer {secret}"}, None),  # Redis has the keys
    ):
        readiness._looked_at = float("-inf")
        answer = httpx.get(f"{service.url}/readyz", headers=headers)
        assert (answer.status_code, answer.json().get("troubles")) == (503, told)
    assert time.monotonic() - started < 1
    redis.ping()  # it goes on
    eventually(lambda: httpx.get(f"{service.url}/readyz").status_code == 200)


def test_a_thread_that_ended_makes_it_not_ready(store: Store, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_failures, "_ended", [])
    monkeypatch.setattr(threading, "excepthook", thread_failures._note)

    def fail() -> None:
        raise KeyError("secret")

    thread = threading.Thread(target=fail, name="janitor")
    thread.start()
    thread.join()
    assert thread_failures.ended() == 1
    (trouble,) = Readiness(store, pool).troubles()
    assert "janitor (KeyError)" in trouble
    assert "secret" not in trouble


def test_a_redis_that_was_emptied_makes_it_not_ready(store: Store, pool: Pool) -> None:
    store.redis.flushdb()
    (trouble,) = Readiness(store, pool).troubles()
    assert "no API key" in trouble and "restart" in trouble
    store.api_keys.create("restored", ["*"])
    assert Readiness(store, pool).troubles() == ()


@pytest.mark.parametrize(
    ("client", "host", "is_told"),
    [("127.0.0.1", "localhost", True), ("192.0.2.1", "127.0.0.1", False), ("127.0.0.1", "attacker.example", False)],
)
def test_what_is_down_is_told_this_machine(pool: Pool, tmp_path: Path, client: str, host: str, is_told: bool) -> None:
    (tmp_path / "spool").touch()  # in place of a folder
    response = asked(without_redis(pool, tmp_path), "/readyz", client, host)
    assert response.status_code == 503
    told = response.json().get("troubles", [])
    assert response.json()["status"] == "down"
    assert [trouble.partition(":")[0] for trouble in told] == (
        ["Redis does not answer", "the spool cannot be written"] if is_told else []
    )


def test_what_is_down_is_told_to_keys_for_every_project(
    service: Service, client: httpx.Client, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = client.post("/v1/keys", json={"name": "one", "projects": ["default"]}).json()["secret"]
    monkeypatch.setattr(service.services.pool, "trouble", lambda: "none starts")
    service.services.readiness._looked_at = float("-inf")
    for key, told in ((secret, ["sandboxes cannot be started: none starts"]), (limited, None), ("wrong", None)):
        headers = {"Authorization": f"Bearer {key}", "X-Forwarded-For": "192.0.2.1"}
        response = httpx.get(f"{service.url}/readyz", headers=headers)
        assert (response.status_code, response.json().get("troubles")) == (503, told)
    service.services.readiness._looked_at = float("-inf")
