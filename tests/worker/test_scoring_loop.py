"""Tests that a worker takes no unit while it has no sandbox, and continues as soon as it has one."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from runtime.metrics import Metrics
from sandbox.errors import InfrastructureError
from sandbox.pool import Pool
from storage.store import Store
from tests.sandbox.test_pool import Counted, counted, grade, source
from tests.waiting import eventually
from tests.worker.conftest import scores, submit
from worker import scoring_loop
from worker.context import WorkerContext
from worker.dispatch import Dispatch
from worker.heartbeat import Heartbeat
from worker.scoring_loop import ScoringLoop

pytestmark = pytest.mark.sandbox
SOURCE = "async def grade(thread):\n    return float(thread.completion())\n"


@pytest.fixture
def backend_and_pool() -> Iterator[tuple[Counted, Pool]]:
    with counted(most_sandboxes=2) as made:
        yield made


def test_units_are_taken_again_within_seconds_of_the_first_sandbox(
    store: Store, dispatch: Dispatch, backend_and_pool: tuple[Counted, Pool]
) -> None:
    backend, pool = backend_and_pool
    context = WorkerContext(store, pool, dispatch, Heartbeat(store, dispatch, Metrics("worker")))
    backend.broken = OSError(24, "no descriptors left")
    with pytest.raises(InfrastructureError):
        grade(pool, source(1))
    batch = submit(store, dispatch, 3, SOURCE)
    with ScoringLoop(context) as loop, ThreadPoolExecutor(1) as thread:
        worked = thread.submit(loop.work)
        try:
            time.sleep(2.5)
            assert not worked.done() and store.batches.get("default", batch).state == "queued"  # another may have some
            backend.broken = None
            eventually(lambda: pool.trouble() is None, 8.0)
            assert worked.result(5)
            loop.flush()
        finally:
            context.stopping.set()
    assert scores(store, batch) == [0.0, 1.0, 2.0]


def test_a_chunk_that_meets_a_defect_is_given_back_and_the_loop_goes_on(
    store: Store,
    dispatch: Dispatch,
    backend_and_pool: tuple[Counted, Pool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, pool = backend_and_pool
    context = WorkerContext(store, pool, dispatch, Heartbeat(store, dispatch, Metrics("worker")))
    batch = submit(store, dispatch, 3, SOURCE)
    with ScoringLoop(context) as loop:
        with monkeypatch.context() as broken:
            broken.setattr(scoring_loop, "_LONGEST_PAUSE_S", 0.0)
            broken.setattr(scoring_loop, "score", lambda *_: b"\xff".decode())
            assert loop.work()
        assert loop.work()
        loop.flush()
    assert scores(store, batch) == [0.0, 1.0, 2.0]
    assert store.batches.settled(batch) == [2]  # the second attempt counts
