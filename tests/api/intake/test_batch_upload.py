"""Tests of JSON bodies, and of uploads that are cancelled between body and answer, where no client can cancel."""

import asyncio
import threading
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import anyio.to_thread
import httpx
import pytest
from fastapi import Request

from api.access import callers
from api.http.problems import ProblemError
from api.intake import batch_upload, bodies
from api.intake.idempotency import Repeat
from api.services import READS_AT_ONCE, Services
from gradebox.schemas import ModelDefaults
from storage import redis_keys
from storage.batch_plan import NO_TERMS
from storage.models.spending import Budget
from storage.uploads import Upload
from tests.api.access.test_auth import LINES
from tests.api.conftest import PROJECT, Service, answer_of, comes_early, create, problem
from tests.storage.making import wanted

_BODY = b'{"completion": "4"}\n'


def test_one_that_is_cancelled_as_it_waits_leaves_nothing(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop of the service causes this, when the body has arrived and all threads are busy."""
    asyncio.run(_cancelled(service.services, monkeypatch))

    assert service.store.redis.zcard(redis_keys.UPLOADS) == 0
    assert list((service.settings.data_dir / "spool" / "payloads").iterdir()) == []


async def _cancelled(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    busy, come = threading.Event(), asyncio.Event()

    async def pour(_request: Request, _limit: int, write: object, _advice: str) -> None:
        await anyio.to_thread.run_sync(write, _BODY)  # type: ignore[arg-type]  # `write` is `Upload.write`
        limiter = anyio.to_thread.current_default_thread_limiter()
        tasks.extend(asyncio.create_task(anyio.to_thread.run_sync(busy.wait)) for _ in range(int(limiter.total_tokens)))
        await asyncio.sleep(0.2)
        come.set()

    tasks: list[asyncio.Task[bool]] = []
    monkeypatch.setattr(bodies, "pour", pour)
    monkeypatch.setattr(batch_upload, "resolve", lambda *_: [])
    request = Request({"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": []})
    key = services.store.api_keys.create("own", ["default"])
    arrival = batch_upload.Arrival(
        services, "default", services.limits, key.id, Repeat(request, "default", key, None, 1)
    )
    task = asyncio.create_task(arrival.take_lines(request, [], NO_TERMS))
    await come.wait()
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.sleep(0.1)
    busy.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.gather(*tasks)


_JSON = {"graders": [{"key": "exact"}], "threads": [{"completion": "4"}]}


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.post(f"{PROJECT}/batches", params={"grader": "exact"}, content=_BODY, headers=LINES),
        lambda client: client.post(f"{PROJECT}/batches", json=_JSON),
        lambda client: client.get("/reward/default/exact/info"),
    ],
)
def test_all_graders_of_a_project_are_read_in_a_place_that_projects_share(
    ask: Callable[[httpx.Client], httpx.Response], client: httpx.Client, service: Service
) -> None:
    """A grader may ask all others, and its batch or its limits depend on all of these."""
    create(client)
    assert not comes_early(service.services.reading.shares, READS_AT_ONCE // 2, lambda: ask(client))


def test_a_batch_that_gets_no_place_is_told_what_they_are(
    client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(client)
    monkeypatch.setattr(callers, "PLACE_S", 0.1)
    shares, places = service.services.reading.shares, READS_AT_ONCE // 2
    for _ in range(places):
        shares.ask("default", bool)
    said = problem(client.post(f"{PROJECT}/batches", json=_JSON), 429, "busy")
    shares.leave("default", places)
    assert f"all {places} places to read stored data or begin a batch" in said
    assert said.endswith("Wait for its other requests to end")


def test_a_slow_spool_holds_no_place_that_projects_share(
    client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(client)
    finish, go = Upload.finish, threading.Event()
    monkeypatch.setattr(Upload, "finish", lambda upload: (go.wait(10), finish(upload))[1])
    with ThreadPoolExecutor(READS_AT_ONCE // 2) as others:
        asked = [others.submit(client.post, f"{PROJECT}/batches", json=_JSON) for _ in range(READS_AT_ONCE // 2)]
        time.sleep(0.2)
        client.get("/reward/default/exact/info").raise_for_status()
        are_early = any(one.done() for one in asked)
        go.set()
    assert not are_early
    assert {one.result().status_code for one in asked} == {202}


def test_the_models_that_graders_ask_through_others_are_found_in_little_memory(service: Service) -> None:
    long = "# " + "x" * 60_000
    for number in range(20):
        wanted(service.store, f"asked-{number}", source=long, asks=[f"model:m{number}"])
    one = wanted(service.store, "asking", asks=[f"grader:asked-{number}" for number in range(20)])
    service.store.models.create("default", "m7", "http://127.0.0.1:9/v1", "m", "", ModelDefaults(), 60.0)
    tracemalloc.start()
    with pytest.raises(ProblemError, match="does not limit m7"):
        batch_upload.refuse_unlimited(service.services, "default", [one], Budget(usd=1.0))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * len(long)


def test_graders_of_a_body_are_parsed_only_if_they_are_short(client: httpx.Client) -> None:
    body = b'{"graders":[%b],"threads":[{"completion":"4"}]}' % b",".join([b'{"key":"exact"}'] * 10_000)
    answer = client.post(f"{PROJECT}/batches", content=body, headers={"Content-Type": "application/json"})
    said = problem(answer, 413, "too-large")
    assert said == "`graders` is 160001 bytes long, and may have 65536: name at most 16"


def test_long_names_in_a_body_are_not_sent_back(client: httpx.Client) -> None:
    long = "x" * 100_000
    for body in ({"graders": [{"key": long}], "threads": [{}]}, {"graders": [], "threads_of": long}):
        answer = client.post(f"{PROJECT}/batches", json=body)
        assert answer.status_code in (413, 422)
        assert len(answer.content) < 1000


@pytest.mark.sandbox
def test_a_batch_has_as_many_threads_bytes_and_graders_as_the_settings_say(
    client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, settings = f"{PROJECT}/batches", service.services.settings
    for number in range(17):
        create(client, f"g{number}")
    graders = [{"key": f"g{number}"} for number in range(17)]
    names = "&".join(f"grader={one['key']}" for one in graders)
    both = {"graders": graders, "threads": [{}]}
    for answer in (client.post(url, json=both), client.post(f"{url}?{names}", content=_BODY, headers=LINES)):
        assert "names 17 graders, and at most 16" in problem(answer, 422, "invalid-request")
    monkeypatch.setattr(settings, "batch_graders", 17)
    made = answer_of(client.post(url, json=both), 202)
    assert len(made["graders"]) == 17

    three = answer_of(client.post(f"{url}?grader=g1", content=_BODY * 3, headers=LINES), 202)["id"]
    monkeypatch.setattr(settings, "batch_threads", 2)
    for answer, said in (
        (client.post(f"{url}?grader=g1", content=_BODY * 3, headers=LINES), "a batch has at most 2 threads"),
        (client.post(url, json={"graders": graders[:1], "threads": [{}] * 3}), "one request takes at most 2"),
        (client.post(url, json={"graders": graders[:1], "threads_of": three}), "a batch has at most 2 threads"),
    ):
        assert said in problem(answer, 413, "too-large")
    monkeypatch.setattr(settings, "batch_mb", 1)
    long = b'{"completion": "%b"}\n' % (b"4" * (1 << 20))
    for content in (long, (part for part in (long[:99], long[99:]))):
        answer = client.post(f"{url}?grader=g1", content=content, headers=LINES)
        assert "longer than 1048576 bytes: send the rest as another batch" in problem(answer, 413, "too-large")


def test_more_than_a_million_threads_can_be_named(client: httpx.Client) -> None:
    for query in ("threads?index=1000000", "outcomes?limit=1000001"):
        assert client.get(f"{PROJECT}/batches/{'0' * 20}/{query}").status_code == 404
