"""Both loops of one worker, in this process: how long a project waits behind a slow chunk of another."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from runtime.metrics import Metrics
from sandbox.pool import Pool, open_pool
from sandbox.settings import SandboxSettings
from storage.batch_plan import Wanted
from storage.store import Store
from tests.storage.making import accept, proved
from tests.worker.conftest import wait_until
from worker import scoring_loop, unit_watch
from worker.context import WorkerContext
from worker.dispatch import Dispatch
from worker.heartbeat import Heartbeat
from worker.scoring_loop import ScoringLoop
from worker.second_loop import SecondLoop

pytestmark = pytest.mark.sandbox
SLOW = "import time\nasync def grade(thread):\n    time.sleep(0.1)\n    return 1.0\n"
QUICK = "async def grade(thread):\n    return 2.0\n"


def of_project(store: Store, project: str, lines: int, source: str) -> str:
    store.projects.ensure(project)
    store.graders.create(project, "g", "g", "", proved(source))
    return accept(store, lines, Wanted("g", store.graders.version(project, "g")), project=project)


@contextmanager
def working(store: Store, pool: Pool) -> Iterator[WorkerContext]:
    dispatch = Dispatch(store)
    context = WorkerContext(store, pool, dispatch, Heartbeat(store, dispatch, Metrics("worker")), stop_s=2.0)

    def work() -> None:
        with ScoringLoop(context) as loop:
            while not context.stopping.is_set():
                if not loop.work():
                    time.sleep(0.01)

    first, second = threading.Thread(target=work), SecondLoop(context)
    first.start()
    second.start()
    yield context
    context.stopping.set()
    second.end()
    first.join()


def test_a_project_is_served_though_there_is_no_memory_for_a_second_sandbox(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_watch, "SLICE_S", 2.0)
    monkeypatch.setattr(scoring_loop, "_OTHER_LOOP_S", 4.0)
    with open_pool(SandboxSettings(sandboxes_memory_mb=512)) as pool, working(store, pool):
        slow = of_project(store, "slow", 1000, SLOW)
        wait_until(lambda: store.batches.get("slow", slow).state == "running")
        time.sleep(1.1)  # the second loop takes its unit from now on
        began = time.monotonic()
        quick = of_project(store, "quick", 1, QUICK)
        wait_until(lambda: store.batches.get("quick", quick).state == "finished")
        took_s = time.monotonic() - began
        batch = store.batches.get("quick", quick)
        left = store.batches.get("slow", slow).state
    assert (batch.scored, left) == (1, "running")
    assert took_s < 8  # the first loop leaves its unit; the sandbox's place was waited for for a minute before
