"""Tests of JSON bodies, and of uploads that are cancelled between body and answer, where no client can cancel."""

import asyncio
import threading

import anyio.to_thread
import httpx
import pytest
from fastapi import Request

from api.intake import batch_upload, bodies
from api.services import Services
from storage import redis_keys
from storage.batch_plan import NO_TERMS
from tests.api.conftest import PROJECT, Service, problem

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
    arrival = batch_upload.Arrival(services, "default", "key", None)
    task = asyncio.create_task(arrival.take_lines(Request({"type": "http"}), [], NO_TERMS))
    await come.wait()
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.sleep(0.1)
    busy.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.gather(*tasks)


def test_graders_of_a_body_are_parsed_only_if_they_are_short(client: httpx.Client) -> None:
    body = b'{"graders":[%b],"threads":[{"completion":"4"}]}' % b",".join([b'{"key":"exact"}'] * 10_000)
    said = problem(
        client.post(f"{PROJECT}/batches", content=body, headers={"Content-Type": "application/json"}), 413, "too-large"
    )
    assert said == "`graders` is 160001 bytes long, and may have 65536: name at most 16"


def test_long_names_in_a_body_are_not_sent_back(client: httpx.Client) -> None:
    long = "x" * 100_000
    for body in ({"graders": [{"key": long}], "threads": [{}]}, {"graders": [], "threads_of": long}):
        answer = client.post(f"{PROJECT}/batches", json=body)
        assert answer.status_code in (413, 422)
        assert len(answer.content) < 1000
