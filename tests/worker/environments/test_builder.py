"""Tests of builds in real worker processes, which may be killed."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from gradebox.schemas import Environment
from storage import redis_keys
from storage.connection import seconds
from storage.environments import environment_builds
from storage.environments.environment_builds import Claim, Made
from storage.settings import StorageSettings
from storage.store import Store
from tests.storage.environments.test_environments import claimed
from tests.waiting import eventually
from tests.wheels import folder_for_environments, make_wheel
from tests.worker.conftest import Worker, workers
from worker.context import WorkerContext
from worker.environments import builder
from worker.environments.builder import EnvironmentBuilder
from worker.environments.settings import EnvironmentSettings
from worker.environments.uv import BuildFailed

pytestmark = pytest.mark.sandbox


@pytest.fixture
def on(unpacked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enables builds in workers from two wheels."""
    make_wheel(tmp_path / "index", "small", {"small.py": "VALUE = 1\n"})
    many = {f"large/module_{number}.py": "def f(x):\n    return x\n" * 200 for number in range(300)}
    make_wheel(tmp_path / "index", "large", {"large/__init__.py": "", **many})
    monkeypatch.setenv("GRADEBOX_ENVIRONMENTS_INDEX", (tmp_path / "index").as_uri())
    monkeypatch.setenv("GRADEBOX_ENVIRONMENTS", "on")


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with folder_for_environments() as folder:
        monkeypatch.setenv("GRADEBOX_ENVIRONMENTS_DIR", str(folder))
        yield folder


@pytest.fixture
def start(on: None, store: Store, storage_settings: StorageSettings) -> Iterator[Callable[[], Worker]]:
    with workers(store, storage_settings) as start:
        yield start


def _now(store: Store, key: str) -> Environment:
    return store.environments.get("default", key)


def test_folders_of_deleted_environments_are_removed_after_a_day(
    store: Store, start: Callable[[], Worker], unpacked: Path
) -> None:
    first = start()
    for key in ("small", "large"):
        store.environments.create("default", key, [key])
    eventually(lambda: all(_now(store, key).state == "ready" for key in ("small", "large")))
    small, large = (unpacked / store.environments.newest("default", key).sha256 for key in ("small", "large"))
    store.environments.delete("default", "small")
    local = unpacked / ("c" * 64)  # of `gradebox run`, which notes it
    local.mkdir()
    (unpacked / ".run-note").write_text(f'{{"sha256": "{local.name}", "packages": []}}')
    for path in (small, large, local):
        os.utime(path, (1, time.time() - 25 * 3600))
    first.kill()  # its sandboxes use the folders
    first.wait()
    start()  # a worker looks when it starts, and each hour
    eventually(lambda: not small.exists())
    assert large.is_dir()
    assert local.is_dir()


def test_a_tenant_is_told_no_path_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    context, claim = MagicMock(), MagicMock()
    told = EnvironmentBuilder(context, EnvironmentSettings())
    monkeypatch.setattr(told, "_make", MagicMock(side_effect=OSError(28, "No space left on device", "/srv/secret")))
    told.build(claim)
    context.store.builds.fail.assert_called_once_with(
        claim, "the service could not build it: No space left on device. Update it to try again"
    )


@pytest.mark.parametrize("is_made", [True, False])
def test_a_build_outlasts_an_outage_of_redis(
    context: WorkerContext, store: Store, monkeypatch: pytest.MonkeyPatch, is_made: bool
) -> None:
    store.environments.create("default", "small", ["small"])
    claim = claimed(store.builds)

    def make(_: Claim, progress: Callable[[str], None]) -> Made:
        progress("resolving")
        if not is_made:
            raise BuildFailed("there is no such package")
        return Made([], "0" * 64, "3.11", 1, 1)

    for name in ("renew", "finish", "fail"):
        method, away = getattr(store.builds, name), iter((True,))

        def after_an_outage(*given: object, method: Callable[..., bool] = method, away: Iterator[bool] = away) -> bool:
            if next(away, False):
                raise RedisConnectionError("it is away")
            return method(*given)

        monkeypatch.setattr(store.builds, name, after_an_outage)
    made = EnvironmentBuilder(context, EnvironmentSettings())
    monkeypatch.setattr(made, "_make", make)
    made.build(claim)

    (build,) = _now(store, "small").builds
    assert (build.state, build.reason) == (("ready", None) if is_made else ("failed", "there is no such package"))


def test_no_other_worker_takes_a_build_whose_disk_is_slow(
    context: WorkerContext, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment_builds, "LEASE_S", 0.5)
    monkeypatch.setattr(builder, "_LONG_STEP_S", 0.1)
    store.environments.create("default", "small", ["small"])
    claim = claimed(store.builds)

    def make(*_: object) -> Made:
        time.sleep(1.2)
        assert store.builds.claim() is None
        return Made([], "0" * 64, "3.11", 1, 1)

    made = EnvironmentBuilder(context, EnvironmentSettings())
    monkeypatch.setattr(made, "_make", make)
    made.build(claim)
    assert _now(store, "small").state == "ready"


def test_what_a_killed_worker_was_building_is_built_by_another(
    store: Store, start: Callable[[], Worker], unpacked: Path
) -> None:
    worker = start()
    store.environments.create("default", "large", ["large"])
    eventually(lambda: _now(store, "large").builds[0].step == "compiling")
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    assert _now(store, "large").state == "building"

    assert (store.redis.zscore(redis_keys.BUILDS, "default/large/1") or 0) - seconds(store.redis) <= 20
    store.redis.zadd(redis_keys.BUILDS, {"default/large/1": 1})  # ends the lease
    start()
    eventually(lambda: _now(store, "large").state != "building")

    (build,) = _now(store, "large").builds
    assert build.state == "ready", build.reason
    assert (unpacked / build.sha256 / "large/module_1.py").is_file()
    assert store.spool.archives() == {build.sha256}


def test_a_worker_that_stops_gives_its_build_back(store: Store, start: Callable[[], Worker]) -> None:
    worker = start()
    store.environments.create("default", "large", ["large"])
    eventually(lambda: _now(store, "large").builds[0].step == "compiling")
    worker.terminate()

    assert worker.wait(20) == 0
    assert store.redis.zscore(redis_keys.BUILDS, "default/large/1") == 0
    assert store.redis.hget(redis_keys.BUILD_TRIES, "default/large/1") == b"0"
