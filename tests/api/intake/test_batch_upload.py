"""Tests of uploads that are cancelled between body and answer, where no client can cancel."""

import asyncio
import threading

import anyio.to_thread
import pytest
from fastapi import Request

from api.intake import batch_upload, bodies
from api.services import Services
from storage import redis_keys
from storage.batch_plan import NO_TERMS
from tests.api.conftest import Service

_BODY = b'{"completion": "4"}\n'


def test_one_that_is_cancelled_before_a_thread_is_free_leaves_nothing(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop of the service causes this, when the body has arrived and all threads are busy."""
    asyncio.run(_cancelled(service.services, monkeypatch))

    assert service.store.redis.zcard(redis_keys.UPLOADS) == 0
    assert list((service.settings.data_dir / "spool" / "payloads").iterdir()) == []


async def _cancelled(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    busy, come = threading.Event(), asyncio.Event()

    async def pour(_request: Request, _limit: int, write: object, _advice: str) -> None:
        await anyio.to_thread.run_sync(write, _BODY)  # type: ignore[arg-type]  # `write` is `Upload.write`
        limiter = anyio.to_thread.current_default_thread_limiter()
        others.extend(
            asyncio.create_task(anyio.to_thread.run_sync(busy.wait)) for _ in range(int(limiter.total_tokens))
        )
        await asyncio.sleep(0.2)
        come.set()

    others: list[asyncio.Task[bool]] = []
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
    await asyncio.gather(*others)
