"""Fixtures for all tests: a real Redis, stores and sandboxes."""

import gc
import os
import re
import signal
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import certifi
import pytest
import structlog
from hypothesis import settings
from redis import Redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from xdist.scheduler import LoadScopeScheduling

from gradebox.asks import asking
from sandbox.pool import Pool, open_pool
from storage.connection import check_format
from storage.settings import StorageSettings
from storage.spool import Spool
from storage.store import Store
from tests.gradebox.conftest import Service, serving

# Collecting the tests makes millions of objects and hardly any garbage.
gc.disable()

# A shell's background job ignores Ctrl-C, and so would processes that tests start and then interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A service that several tests share logs during other tests, which may read their captured output.
structlog.configure(logger_factory=structlog.stdlib.LoggerFactory())

_create_default_context = ssl.create_default_context


@cache
def _authorities(file: str) -> ssl.SSLContext:
    """Reading them takes 25 ms for each HTTP client, and no test connects to another machine."""
    return _create_default_context(cafile=file)


def _default_context(*arguments: Any, **options: Any) -> ssl.SSLContext:
    file = os.environ.get("SSL_CERT_FILE") or certifi.where()  # as httpx chooses
    if not arguments and options == {"cafile": file}:
        return _authorities(file)
    return _create_default_context(*arguments, **options)


ssl.create_default_context = _default_context

# The time of one example depends more on the load of the machine than on the code.
settings.register_profile("gradebox", deadline=None)
settings.load_profile("gradebox")


_WITH_OBJECT_STORE = {
    "tests/api/table/test_page.py",
    "tests/storage/test_recorded_scores.py",
    "tests/storage/test_spool.py",
    "tests/worker/test_object_store.py",
}


class _Groups(LoadScopeScheduling):  # type: ignore[misc]  # the package is not typed
    """Runs the tests of a group in one process, so that they share what they start."""

    def _split_scope(self, nodeid: str) -> str:
        return _group(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> _Groups:
    return _Groups(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starts groups with slow tests first, then large groups, so that none runs on when all others have ended."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(_group(item.nodeid), []).append(item)
    items[:] = [item for members in sorted(groups.values(), key=_begins) for item in members]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Keeps all tests out of garbage collections, which took a seventh of the time."""
    gc.freeze()
    gc.enable()


def _group(nodeid: str) -> str:
    """The group of a test: its file; in the contract, its backend; in the corpus, a third of the tests of a backend.

    All tests with other services' clients are one group, because they share a service. So are those of statistics and
    those with an object store, because SciPy and moto take a second to import.
    """
    file, _, test = nodeid.partition("::")
    if match := re.fullmatch(r"\w+\[(bubblewrap(?:, no zygote)?|docker(?:, attached)?)(?:-.*)?\]", test, re.DOTALL):
        if "/contract/" in file:
            return f"contract {match[1]}"
        if file.endswith("/test_corpus.py"):
            return f"corpus {match[1]} {crc32(test.encode()) % 3}"
    if re.match(r"tests/api/dialects/\w+/", file):
        return "dialects"
    if file.startswith("tests/api/numbers/"):
        return "numbers"
    return "object store" if file in _WITH_OBJECT_STORE else file


def _begins(members: list[pytest.Item]) -> tuple[bool, int]:
    return not any(item.get_closest_marker("slow") for item in members), -len(members)


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Starts a Redis with an append-only file in this folder and yields its URL; it is killed when the block ends."""
    socket = folder / "redis.sock"
    command = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--dir", str(folder), "--save", ""]
    server = subprocess.Popen([*command, "--appendonly", "yes"], stdout=subprocess.DEVNULL)
    url = f"unix://{socket}"
    try:
        Redis.from_url(url, retry=Retry(ConstantBackoff(0.02), 200)).ping()  # waits until it is up
        yield url
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the Redis of this test run."""
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    """A client of an empty Redis."""
    with Redis.from_url(redis_url) as client:
        client.flushdb()
        check_format(client)
        yield client


@pytest.fixture
def storage_settings(redis_url: str, redis: Redis, tmp_path: Path) -> StorageSettings:
    """The settings of an empty deployment."""
    return StorageSettings(redis_url=redis_url, data_dir=tmp_path / "data")


@pytest.fixture
def store(redis: Redis, storage_settings: StorageSettings) -> Store:
    """An empty store with its default project."""
    store = Store(redis, Spool(storage_settings.spool), secret_key=storage_settings.secret_key)
    store.projects.ensure("default")
    return store


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service for all tests that make their own keys or projects."""
    with serving(tmp_path_factory.mktemp("service"), "--workers", "1") as running:
        yield running


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A disk of 16 MiB, or of the size from `parametrize`. Only for tests marked `alone`: others check for mounts."""
    path = tmp_path / "disk"
    path.mkdir()
    options = f"size={getattr(request, 'param', 16)}m"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "gradebox", path], capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    yield path
    subprocess.run(["umount", path], check=True)


@pytest.fixture(autouse=True)
def names_of_asks() -> Iterator[None]:
    """Restores the list of what graders ask, because loading and checking graders changes it in this process."""
    named, is_settled = asking._named.copy(), asking._is_settled
    yield
    asking._is_settled = is_settled
    asking._named.clear()
    asking._named.update(named)


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    """A pool of real sandboxes."""
    with open_pool() as opened:
        yield opened
