"""Tests of workers that share no folder with the API and read the spool from an object store."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from storage.settings import StorageSettings
from storage.spool.spool import Spool
from storage.store import Store
from tests.object_store import object_store
from tests.worker.conftest import ROOT, over, scores, submit
from worker.dispatch import Dispatch

pytestmark = [pytest.mark.service, pytest.mark.sandbox]
GRADER = "async def grade(thread):\n    return float(thread.completion())\n"


@pytest.fixture
def spool_url() -> Iterator[str]:
    with object_store() as url:
        yield url


@pytest.fixture
def store(redis: Redis, spool_url: str) -> Store:
    store = Store(redis, Spool(spool_url))
    store.projects.ensure("default")
    return store


@pytest.fixture
def far_worker(
    store: Store, storage_settings: StorageSettings, spool_url: str, tmp_path: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker with a separate data folder and working folder. As root, also hides the API's data folder from it."""
    mine, api = tmp_path / "far", tmp_path / "data"
    mine.mkdir()
    api.mkdir(exist_ok=True)
    (api / "api-key").write_text("of the API alone")
    command = [sys.executable, "-m", "worker"]
    if os.geteuid() == 0:
        hide = f'mount -t tmpfs none {api} && exec "$@"'
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", hide, "sh", *command]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "GRADEBOX_REDIS_URL": storage_settings.redis_url,
        "GRADEBOX_DATA_DIR": str(mine),
        "GRADEBOX_SPOOL_URL": spool_url,
    }
    worker = subprocess.Popen(command, env=environment, cwd=mine)
    while not store.redis.scard("rq:workers"):
        assert worker.poll() is None
        time.sleep(0.02)
    yield worker
    worker.terminate()
    assert worker.wait(30) == 0


def test_a_batch_goes_through_an_object_store(
    far_worker: subprocess.Popen[bytes], store: Store, dispatch: Dispatch, tmp_path: Path
) -> None:
    batch_id = submit(store, dispatch, 3000, GRADER)
    batch = over(store, batch_id)
    assert (batch.state, batch.done) == ("finished", 3000)
    assert scores(store, batch_id) == [float(number) for number in range(3000)]
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["api-key"]
    assert not (tmp_path / "far" / "spool").exists()
    store.spool.remove(batch_id)
    files, root = store.spool.files.system, store.spool._root
    assert [path for path in files.find(root) if batch_id in path] == []
