"""Fixtures for the API: a real server on a free port, and clients."""

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from redis import Redis

from api.access.failed_keys import FailedKeys
from api.http.server import server
from api.services import Services
from api.settings import ApiSettings
from gradebox.schemas import Role
from sandbox.pool.fair_shares import Shares
from sandbox.pool.pool import Pool
from storage.settings import StorageSettings
from storage.spool.spool import Spool
from storage.store import Store, first_start

PROJECT = "/v1/projects/default"
GOOD = "async def grade(thread):\n    return float(thread.completion() == thread.metadata.get('answer', '4'))\n"


@dataclass(frozen=True)
class Service:
    """A running API and its store."""

    url: str
    services: Services
    serving: uvicorn.Server
    settings: StorageSettings

    @property
    def store(self) -> Store:
        return self.services.store

    def key(self, *projects: str, role: Role = "manage") -> str:
        """A new API key for these projects, which are there then, or for all."""
        for project in projects:
            self.store.projects.ensure(project)
        secret = self.store.api_keys.create("another", list(projects) or ["*"], role).secret
        assert secret is not None
        return secret


@pytest.fixture(scope="session")
def redis_url(redis_url: str) -> str:
    """A database for these tests, because their worker lives until the session ends."""
    return f"{redis_url}?db=2"


@contextmanager
def serving(services: Services, settings: StorageSettings) -> Iterator[Service]:
    """Runs a server until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = server(services, "127.0.0.1", 0)
        thread = threading.Thread(target=running.run, args=([listening],))
        thread.start()
        yield Service(f"http://127.0.0.1:{listening.getsockname()[1]}", services, running, settings)
        running.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def running(redis_url: str, pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    settings = StorageSettings(redis_url=redis_url, data_dir=tmp_path_factory.mktemp("api"), spool_url="")
    store = Store(Redis.from_url(redis_url), Spool(settings.spool), secret_key=settings.secret_key)
    metrics = settings.data_dir / "metrics"
    metrics.mkdir()
    with serving(Services(store, pool, ApiSettings(metrics_dir=metrics)), settings) as service:
        yield service


@pytest.fixture
def service(running: Service, redis: Redis) -> Service:
    """The API with an empty store."""
    (running.settings.data_dir / "api-key").unlink(missing_ok=True)
    for folder in (running.settings.data_dir / "spool").glob("*/"):  # not its mark: a worker may run on
        shutil.rmtree(folder, ignore_errors=True)
    running.services.failed_keys = FailedKeys(running.services.settings.failed_keys)
    store = running.store
    running.services.pool.environments.fetch_from(  # the services of other tests have the same pool
        store.spool.open_archive, store.archives.note_damage
    )
    first_start(running.store, running.settings)
    return running


@pytest.fixture
def secret(service: Service) -> str:
    """The first API key."""
    return (service.settings.data_dir / "api-key").read_text().strip()


@pytest.fixture
def client(service: Service, secret: str) -> Iterator[httpx.Client]:
    """A client with the first API key."""
    with httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {secret}"}, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def worker(running: Service) -> Iterator[None]:
    """Starts a real worker for one module. Other modules need batches that stay queued."""
    environment = {
        **os.environ,
        "GRADEBOX_REDIS_URL": running.settings.redis_url,
        "GRADEBOX_DATA_DIR": str(running.settings.data_dir),
        "GRADEBOX_METRICS_FILE": str(running.settings.data_dir / "metrics" / "worker-1.prom"),
    }
    root = Path(__file__).parents[2]
    process = subprocess.Popen([sys.executable, "-m", "worker"], env=environment, cwd=root)
    while not running.store.redis.scard("rq:workers"):
        assert process.poll() is None
        time.sleep(0.02)
    yield
    process.terminate()
    assert process.wait(20) == 0


def problem(response: httpx.Response, status: int, name: str) -> str:
    """Checks the status and the type of a problem, and returns its detail."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    body = response.json()
    assert (response.status_code, body["status"], body["type"]) == (status, status, f"urn:gradebox:problem:{name}")
    assert body["request_id"] == response.headers["x-request-id"]
    return str(body["detail"])


def answer_of(response: httpx.Response, status: int = 200) -> Any:
    """Checks the status, and returns the JSON of the body, if there is any."""
    assert response.status_code == status, response.text
    return response.json() if response.content else None


def comes_early(shares: Shares, places: int, ask: Callable[[], httpx.Response]) -> bool:
    """Whether an answer, which must be a success, comes before the default project gives so many places back."""
    for _ in range(places):
        shares.ask("default", bool)
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(ask)
        time.sleep(0.2)
        is_early = asked.done()
        shares.leave("default", places)
        asked.result().raise_for_status()
    return is_early


def create(client: httpx.Client, key: str = "exact", source: str = GOOD) -> None:
    """Creates a grader."""
    answer_of(client.post(f"{PROJECT}/graders", json={"key": key, "source": source}), 201)


def finished(client: httpx.Client, batch_id: str) -> dict[str, object]:
    """Waits until the batch has ended, and returns it."""
    for _ in range(600):
        batch: dict[str, object] = client.get(f"{PROJECT}/batches/{batch_id}").json()
        if batch["state"] not in ("queued", "running"):
            return batch
        time.sleep(0.05)
    raise AssertionError(f"batch {batch_id} did not end: {batch}")
