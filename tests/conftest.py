"""Fixtures for all tests: a real Redis, stores and sandboxes."""

import ctypes
import gc
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

import pytest
import structlog
from hypothesis import settings
from redis import Redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from xdist.scheduler import LoadScopeScheduling

from gradebox.asks import asking
from sandbox.pool.pool import Pool, open_pool
from storage.connection import check_format
from storage.settings import StorageSettings
from storage.spool.spool import Spool
from storage.store import Store
from tests import authorities  # noqa: F401  # it changes `ssl`
from tests.gradebox.conftest import Service, serving

# Collecting the tests makes millions of objects and hardly any garbage.
gc.disable()

# A shell's background job ignores Ctrl-C, and so would processes that tests start and then interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A service that several tests share logs during other tests, which may read their captured output.
structlog.configure(logger_factory=structlog.stdlib.LoggerFactory())

# The time of one example depends more on the load of the machine than on the code.
settings.register_profile("gradebox", deadline=None)
settings.load_profile("gradebox")


# Files that share what takes long to start or to import: a service, SciPy, or moto with its object store.
_TOGETHER = {
    "dialects": r"tests/api/dialects/\w+/.*",
    "numbers": r"tests/api/(numbers/.*|routes/test_(intervals|numbers)\.py)",
    "object store": r"tests/(storage/(batches/test_recorded_scores|spool/test_spool\w*)|worker/test_object_store)\.py",
    "service": r"tests/(examples/test_(checks|judges_from_elsewhere)_page|gradebox/(cli/test_commands"
    r"|client/test_lost_answers|rewards/test_\w+|service/test_(feedback|spending)"
    r"|test_(client|docs_blocks|groups|openai)))\.py",
}


_DISK = pytest.StashKey[Path]()
_CLONE_NEWNS, _MS_REC, _MS_SLAVE = 0x20000, 0x4000, 0x80000


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
    Files of `_TOGETHER` are one group.
    """
    file, _, test = nodeid.partition("::")
    if match := re.fullmatch(r"\w+\[(bubblewrap(?:, no zygote)?|docker(?:, attached)?)(?:-.*)?\]", test, re.DOTALL):
        if "/contract/" in file:
            return f"contract {match[1]}"
        if file.endswith("/test_corpus.py"):
            return f"corpus {match[1]} {crc32(test.encode()) % 3}"
    return next((group for group, files in _TOGETHER.items() if re.fullmatch(files, file)), file)


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


def _enter_own_mounts() -> bool:
    """Enters a mount namespace that sees the machine's mounts, and whose own mounts nobody else sees."""
    libc = ctypes.CDLL(None)
    return not (libc.unshare(_CLONE_NEWNS) or libc.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Mounts the small disk before any test runs, in any process: others check for mounts that sandboxes leave. Another
    run on this machine checks too.
    """
    if session.config.option.collectonly or not _enter_own_mounts():
        return
    path = Path(tempfile.mkdtemp(prefix="gradebox-disk-"))
    if subprocess.run(["mount", "-t", "tmpfs", "gradebox", path], capture_output=True).returncode:
        path.rmdir()
    else:
        session.config.stash[_DISK] = path


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (path := session.config.stash.get(_DISK, None)) is not None:
        subprocess.run(["umount", path], check=True)
        path.rmdir()


@pytest.fixture
def disk(request: pytest.FixtureRequest) -> Iterator[Path]:
    """An empty disk of 16 MiB, or of the size from `parametrize`."""
    path = request.config.stash.get(_DISK, None)
    if path is None:
        pytest.skip("only root can mount a small disk")
    subprocess.run(["mount", "-o", f"remount,size={getattr(request, 'param', 16)}m", path], check=True)
    yield path
    subprocess.run(["mount", "-o", "remount,rw", path], check=True)
    for member in path.iterdir():
        shutil.rmtree(member) if member.is_dir() else member.unlink()


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
