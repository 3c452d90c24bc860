"""Tests of the answers to clients that wait while the service stops."""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis
from websockets.exceptions import ConnectionClosed

from api.services import Services
from api.settings import ApiSettings
from sandbox.pool.pool import Pool
from storage.settings import StorageSettings
from storage.spool.spool import Spool
from storage.store import Store, first_start
from tests.api.conftest import PROJECT, Service, serving
from tests.api.dialects.reward.test_http import request
from tests.api.dialects.reward.test_socket import over_socket
from tests.api.http.test_bounded_protocol import connected, rest
from tests.api.http.test_websocket import websocket_head

pytestmark = pytest.mark.sandbox
SLEEPS = "import time\nasync def grade(thread):\n    time.sleep(20)\n    return 1.0\n"
AT_LOAD = "import time\ntime.sleep(8)\nasync def grade(thread):\n    return 1.0\n"
THREAD: dict[str, object] = {"messages": [{"role": "assistant", "content": "4"}]}
STOP_S = 1.0

Ask = Callable[[httpx.Client], httpx.Response]


@contextmanager
def stoppable(redis_url: str, pool: Pool, folder: Path, stop_s: float = STOP_S) -> Iterator[tuple[Service, str]]:
    """Starts a service with an empty database. Yields it with its API key. The test stops it."""
    settings = StorageSettings(redis_url=redis_url, data_dir=folder, spool_url="")
    redis = Redis.from_url(redis_url)
    redis.flushdb()
    store = Store(redis, Spool(settings.spool))
    first_start(store, settings)
    secret = (folder / "api-key").read_text().strip()
    with serving(Services(store, pool, ApiSettings(stop_s=stop_s)), settings) as service:
        yield service, secret


def sleeper(service: Service, secret: str) -> None:
    """Creates a grader that sleeps for threads with the metadata `sleeps`, so not in the checks."""
    source = SLEEPS.replace("20", "20 if thread.metadata.get('sleeps') else 0")
    with httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {secret}"}, timeout=60) as client:
        body = {"key": "sleeps", "source": source, "timeout_s": 60}
        assert client.post(f"{PROJECT}/graders", json=body).status_code == 201


def wait_for_batch(client: httpx.Client) -> httpx.Response:
    batch = client.post(f"{PROJECT}/batches", json={"graders": [{"key": "sleeps"}], "threads": [THREAD]}).json()
    return client.get(f"{PROJECT}/batches/{batch['id']}?wait_s=30")


def unfinished_body(client: httpx.Client) -> httpx.Response:
    def body() -> Iterator[bytes]:
        yield b"{}\n"
        time.sleep(4)

    kind = {"Content-Type": "application/x-ndjson"}
    return client.post(f"{PROJECT}/batches?grader=sleeps", content=body(), headers=kind)


SCORED = {"metadata": {"sleeps": True}}
RUN = {"type": "python", "name": "a", "source": "import time\ndef grade(sample, item):\n    time.sleep(20)\n"}
POSTS: dict[str, dict[str, object]] = {
    f"{PROJECT}/graders/sleeps/score": {"threads": [THREAD | SCORED]},
    "/reward/default/sleeps/score": {"turns": THREAD["messages"], **SCORED},
    f"{PROJECT}/validate": {"source": AT_LOAD},
    f"{PROJECT}/graders": {"key": "other", "source": AT_LOAD},
    "/openai/v1/fine_tuning/alpha/graders/run": {"grader": RUN, "model_sample": "4", "item": {}},
}


def post(path: str, client: httpx.Client) -> httpx.Response:
    return client.post(path, json=POSTS[path])


score = partial(post, next(iter(POSTS)))
WAITS: list[Ask] = [*(partial(post, path) for path in POSTS), wait_for_batch, unfinished_body]


def said(answer: httpx.Response) -> None:
    """Checks that the answer is a problem that reports the stop and when to retry."""
    assert (answer.status_code, answer.headers.get("retry-after")) == (503, "1"), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "urn:gradebox:problem:unavailable"
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


@pytest.fixture(scope="session")
def redis_url(redis_url: str) -> str:
    """A database that no worker of other tests uses."""
    return redis_url.replace("db=2", "db=3")


@pytest.fixture(autouse=True)
def no_traceback(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    found = [one for one in caplog.get_records("call") if one.exc_info and one.exc_info[0]]
    assert not found, [(one.name, one.getMessage(), one.exc_info) for one in found]


def test_routes_that_wait_say_that_it_stops(redis_url: str, pool: Pool, tmp_path: Path) -> None:
    with stoppable(redis_url, pool, tmp_path) as (service, secret):
        sleeper(service, secret)
        with ThreadPoolExecutor(len(WAITS)) as threads:
            found = [threads.submit(_ask, service, secret, wait) for wait in WAITS]
            time.sleep(2)
            service.serving.should_exit = True
            for asked in found:
                said(asked.result())


@pytest.mark.parametrize("at", [-0.2, 0.2, 1.0])
def test_many_at_once_and_at_each_moment_of_stopping(redis_url: str, pool: Pool, tmp_path: Path, at: float) -> None:
    """Half of the clients ask before the stop, the others `at` seconds after its start (if negative, before)."""
    many = 40
    with stoppable(redis_url, pool, tmp_path) as (service, secret):
        sleeper(service, secret)
        with ThreadPoolExecutor(many) as threads:
            first = [threads.submit(_ask, service, secret, score) for _ in range(many // 2)]
            while len(service.serving.server_state.tasks) < many // 2:
                time.sleep(0.02)
            stopper = threading.Timer(0.3, setattr, (service.serving, "should_exit", True))
            stopper.start()
            time.sleep(0.3 + at)
            later = [threads.submit(_ask, service, secret, score) for _ in range(many // 2)]
            for asked in first:
                said(asked.result())
            for asked in later:
                # The service no longer listens, or it closed the connection before the request arrived.
                with suppress(httpx.TransportError):
                    said(asked.result())


def test_streams_are_broken_off_and_websockets_told(
    redis_url: str, pool: Pool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with stoppable(redis_url, pool, tmp_path) as (service, secret):
        sleeper(service, secret)
        headers = {"Authorization": f"Bearer {secret}"}
        with httpx.Client(base_url=service.url, headers=headers, timeout=60) as client, connected(service) as ws:
            batch = client.post(f"{PROJECT}/batches", json={"graders": [{"key": "sleeps"}], "threads": [THREAD]})
            ws.sendall(websocket_head(secret, "/reward/default/sleeps/ws"))
            assert ws.recv(65_536).startswith(b"HTTP/1.1 101")
            with client.stream("GET", f"{PROJECT}/batches/{batch.json()['id']}/events") as events:
                service.serving.should_exit = True
                with pytest.raises(httpx.RemoteProtocolError):
                    list(events.iter_raw())
            assert rest(ws)[2:4] == (1012).to_bytes(2, "big")


def test_each_request_over_a_websocket_is_answered(redis_url: str, pool: Pool, tmp_path: Path) -> None:
    with stoppable(redis_url, pool, tmp_path, stop_s=20) as (service, secret):
        sleeper(service, secret)

        async def ask(client: Any) -> list[Any]:
            async def twice() -> Any:
                answer = await client.score(request("4", **SCORED))
                with pytest.raises(ConnectionClosed):  # else it would wait for ever
                    await client.score(request("4"))
                return answer

            asked = asyncio.gather(*(twice() for _ in range(20)))
            await asyncio.sleep(1)
            service.serving.should_exit = True
            return await asyncio.wait_for(asked, 30)

        answers = over_socket(service.url.replace("://", f"://default:{secret}@") + "/reward/default/sleeps", ask)
    assert all(math.isnan(answer.reward) and answer.metadata["error"]["retryable"] for answer in answers)
    assert {answer.metadata["error"]["kind"] for answer in answers} == {"unavailable"}


def test_a_websocket_whose_key_is_looked_up_is_told(
    redis_url: str, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stoppable(redis_url, pool, tmp_path) as (service, secret):
        sleeper(service, secret)
        find = service.store.api_keys.find_in

        def slowly(token: str, project: str) -> object:
            time.sleep(2)
            return find(token, project)

        monkeypatch.setattr(service.store.api_keys, "find_in", slowly)
        with connected(service) as ws:
            ws.sendall(websocket_head(secret, "/reward/default/sleeps/ws"))
            time.sleep(0.3)
            service.serving.should_exit = True
            answer = rest(ws).lower()
        assert answer.startswith(b"http/1.1 503") and b"retry-after: 1" in answer and b"problem+json" in answer


def _ask(service: Service, secret: str, ask: Ask) -> httpx.Response:
    headers = {"Authorization": f"Bearer {secret}"}
    with httpx.Client(base_url=service.url, headers=headers, timeout=60, verify=False) as client:
        return ask(client)
