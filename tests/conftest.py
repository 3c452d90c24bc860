"""What every test may use: a real Redis, stores in it, and sandboxes."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import settings
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from sandbox.pool import Pool, open_pool
from storage.connection import check_format
from storage.settings import StorageSettings
from storage.spool import Spool
from storage.store import Store

# A shell's background job ignores Ctrl-C, and so would all that tests start and then interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long one example takes says more of what else the machine does than of the code.
settings.register_profile("gradebox", deadline=None)
settings.load_profile("gradebox")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where several processes run the tests, those of a file share one, and with it what they start.

    Files with slow tests begin first, so that none of them is still running when the others have ended.
    """
    groups = [_group(item) for item in items]
    slow = {group for group, item in zip(groups, items, strict=True) if item.get_closest_marker("slow")}
    for group, item in zip(groups, items, strict=True):
        item.add_marker(pytest.mark.xdist_group(group))
    items[:] = [item for _, item in sorted(zip(groups, items, strict=True), key=lambda one: one[0] not in slow)]


def _group(item: pytest.Item) -> str:
    """The file of a test; of tests that are run against each backend, also which."""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    backend = parameters.get("attacked") or parameters.get("backend")
    return f"{item.path.parent if backend else item.path} {backend or ''}"


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """The URL of a Redis with an append-only file in this folder; it is killed when the block ends."""
    socket = folder / "redis.sock"
    command = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--dir", str(folder), "--save", ""]
    server = subprocess.Popen([*command, "--appendonly", "yes"], stdout=subprocess.DEVNULL)
    url = f"unix://{socket}"
    try:
        _wait_until_up(Redis.from_url(url))
        yield url
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Redis of this test run's own."""
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


def _wait_until_up(redis: Redis) -> None:
    for _ in range(200):
        try:
            redis.ping()
        except RedisConnectionError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("redis-server did not start")


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    """A client of an empty Redis."""
    with Redis.from_url(redis_url) as client:
        client.flushdb()
        check_format(client)
        yield client


@pytest.fixture
def storage_settings(redis_url: str, redis: Redis, tmp_path: Path) -> StorageSettings:
    """An empty deployment's settings."""
    return StorageSettings(redis_url=redis_url, data_dir=tmp_path / "data")


@pytest.fixture
def store(redis: Redis, storage_settings: StorageSettings) -> Store:
    """An empty store with its default project."""
    store = Store(redis, Spool(storage_settings.spool))
    store.projects.ensure("default")
    return store


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A disk of 16 MiB, or as many as `parametrize` says."""
    path = tmp_path / "disk"
    path.mkdir()
    options = f"size={getattr(request, 'param', 16)}m"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "gradebox", path], capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    yield path
    subprocess.run(["umount", path], check=True)


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    """Real sandboxes."""
    with open_pool() as opened:
        yield opened
