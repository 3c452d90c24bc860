"""Fixtures that start real worker processes."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from gradebox.schemas import Batch
from runtime.metrics import Metrics
from sandbox.pool.pool import Pool
from storage import redis_keys
from storage.batch_plan import UploadedBatch
from storage.queue.leases import Lease
from storage.settings import StorageSettings
from storage.store import Store
from storage.uploads import Upload
from tests.storage.making import lines_of, wanted
from tests.waiting import eventually
from worker.context import WorkerContext
from worker.dispatch import Dispatch
from worker.heartbeat import Heartbeat
from worker.loaded_grader import GraderCache
from worker.outcome_writer import OutcomeWriter
from worker.unit import Scored, score
from worker.unit_queue import UnitQueue
from worker.unit_watch import UnitWatch

Worker = subprocess.Popen[bytes]
Start = Callable[[], Worker]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def redis_url(redis_url: str) -> str:
    """A separate database, because workers of other tests may still run."""
    return f"{redis_url}?db=1"


@pytest.fixture
def dispatch(store: Store) -> Dispatch:
    return Dispatch(store)


@pytest.fixture
def sandboxes(request: pytest.FixtureRequest) -> Pool:
    """A pool for tests that are marked `sandbox`. Others have none."""
    return cast(Pool, request.getfixturevalue("pool") if request.node.get_closest_marker("sandbox") else None)


@pytest.fixture
def context(store: Store, dispatch: Dispatch, sandboxes: Pool) -> WorkerContext:
    """The context of a worker whose heartbeat does not run."""
    return WorkerContext(store, sandboxes, dispatch, Heartbeat(store, dispatch, Metrics("worker")))


def scored(context: WorkerContext, lease: Lease) -> Scored | None:
    """Scores a unit."""
    with GraderCache(context.store, context.pool) as cache:
        return score(context, cache, lease, UnitWatch(context, lease))


def written(context: WorkerContext, unit: Scored) -> None:
    """Writes the outcomes of a unit."""
    with OutcomeWriter(context, UnitQueue(context)) as writer:
        writer.add(unit)


@contextmanager
def workers(store: Store, settings: StorageSettings) -> Iterator[Start]:
    """Yields a function that starts a worker and waits until it listens. Kills the workers when the block ends."""
    own = {"GRADEBOX_REDIS_URL": settings.redis_url, "GRADEBOX_DATA_DIR": str(settings.data_dir)}
    started: list[Worker] = []

    def start() -> Worker:
        before = store.redis.scard("rq:workers")
        worker = subprocess.Popen([sys.executable, "-m", "worker"], env={**os.environ, **own}, cwd=ROOT)
        started.append(worker)
        while store.redis.scard("rq:workers") == before:
            assert worker.poll() is None
            time.sleep(0.02)
        return worker

    try:
        yield start
    finally:
        for worker in started:
            worker.kill()
            worker.wait()


@pytest.fixture
def start(store: Store, storage_settings: StorageSettings) -> Iterator[Start]:
    with workers(store, storage_settings) as start:
        yield start


def submit(
    store: Store,
    dispatch: Dispatch,
    lines: int,
    source: str,
    timeout_s: float = 5.0,
    project: str = "default",
    asks: Sequence[str] = (),
) -> str:
    """Submits a batch whose completions are the numbers from 0, with a new grader."""
    grader = wanted(store, f"g{lines}", source=source, asks=asks, project=project, timeout_s=timeout_s)
    upload = Upload(store)
    upload.write(b"".join(b'{"completion": "%d"}\n' % number for number in range(lines)))
    chunks = upload.finish()
    dispatch.accept(UploadedBatch(upload.id, project, [grader], chunks))
    return upload.id


def end_leases(store: Store) -> None:
    """Lets all leases run out at once."""
    leases: list[bytes] = store.redis.zrange(redis_keys.LEASES, 0, -1)  # type: ignore[assignment]  # redis-py has unions
    for lease in leases:
        store.redis.zadd(redis_keys.LEASES, {lease: 0})


def scores(store: Store, batch_id: str) -> list[float | None]:
    """The scores of a batch, one for each thread."""
    found = [json.loads(line) for line in lines_of(store, batch_id)]
    assert [one["index"] for one in found] == list(range(len(found)))
    return [one["score"] for one in found]


def over(store: Store, batch_id: str, project: str = "default") -> Batch:
    """Waits until the batch is over."""
    eventually(lambda: store.batches.get(project, batch_id, summary=False).state not in ("queued", "running"))
    return store.batches.get(project, batch_id)
