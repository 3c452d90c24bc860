"""How long a project or a batch waits behind a slow chunk of another, with the loops of a worker in this process."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from itertools import count
from statistics import median
from typing import Any

import pytest

from models.asks.ask_context import AskContext
from models.asks.asker import Asker
from models.replies.answer_json import Answer
from models.selftest import EchoAsker
from runtime.metrics import Metrics
from sandbox.pool.pool import Pool, open_pool
from sandbox.settings import SandboxSettings
from storage import redis_keys
from storage.connection import text
from storage.store import Store
from tests.storage.making import accept, wanted
from tests.waiting import eventually
from worker import scoring_loop, unit_watch
from worker.context import WorkerContext
from worker.dispatch import Dispatch
from worker.heartbeat import Heartbeat
from worker.scoring_loop import ScoringLoop
from worker.scoring_threads import unserved_threads

pytestmark = pytest.mark.sandbox
SLOW = "import time\nasync def grade(thread):\n    time.sleep(0.1)\n    return 1.0\n"
_numbers = count()
QUICK = "async def grade(thread):\n    return 2.0\n"


def of_project(store: Store, project: str, lines: int, source: str) -> str:
    store.projects.ensure(project)
    asks = ["model:judge"] if "Model" in source else []
    key = f"g-{next(_numbers)}"
    return accept(store, lines, wanted(store, key, source=source, asks=asks, project=project), project=project)


@contextmanager
def working(store: Store, pool: Pool, asker: Asker | None = None) -> Iterator[WorkerContext]:
    """Runs the first loop and the other loops of a worker; with an `asker`, in the lane of graders that ask."""
    dispatch = Dispatch(store, "asking" if asker else "")
    heartbeat = Heartbeat(store, dispatch, Metrics("worker"))
    context = WorkerContext(store, pool, dispatch, heartbeat, stop_s=2.0, asker=asker)

    def work() -> None:
        with ScoringLoop(context) as loop:
            while not context.stopping.is_set():
                if not loop.work():
                    time.sleep(0.01)

    first, others = threading.Thread(target=work), unserved_threads(context, asking_chunks=8)
    for thread in [first, *others]:
        thread.start()
    try:
        yield context
    finally:
        context.stopping.set()
        for other in others:
            other.end()
        first.join()


def test_a_project_is_served_without_memory_for_a_second_sandbox(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_watch, "SLICE_S", 2.0)
    monkeypatch.setattr(scoring_loop, "_OTHER_LOOP_S", 4.0)
    with open_pool(SandboxSettings(sandboxes_memory_mb=512)) as pool, working(store, pool):
        slow = of_project(store, "slow", 1000, SLOW)
        eventually(lambda: store.batches.get("slow", slow).state == "running")
        time.sleep(1.1)  # from now on the second loop takes units
        began = time.monotonic()
        quick = of_project(store, "quick", 1, QUICK)
        eventually(lambda: store.batches.get("quick", quick).state == "finished")
        took_s = time.monotonic() - began
        batch = store.batches.get("quick", quick)
        left = store.batches.get("slow", slow).state
    assert (batch.scored, left) == (1, "running")
    assert took_s < 8  # the first loop leaves its unit; before, a sandbox was awaited for a minute


def _finish_beside(store: Store, slow: str, quick: tuple[str, str]) -> None:
    """Returns once the batch `quick` of a project has finished while the batch `slow` of project `p` runs."""
    eventually(partial(_is_in_state, store, *quick, "finished"), 20)
    assert store.batches.get(*quick).scored > 0
    assert store.batches.get("p", slow).state == "running"


def test_a_batch_does_not_wait_for_the_chunk_of_another_of_its_project(store: Store, pool: Pool) -> None:
    """The chunks would take 30 s each; the next project still has a loop."""
    with working(store, pool):
        slow = of_project(store, "p", 300, SLOW)
        eventually(partial(_is_in_state, store, "p", slow, "running"))
        _finish_beside(store, slow, ("p", of_project(store, "p", 1, QUICK)))
        second = of_project(store, "p", 300, SLOW)
        eventually(partial(_is_in_state, store, "p", second, "running"))
        _finish_beside(store, second, ("other", of_project(store, "other", 1, QUICK)))


def _leases(store: Store) -> Counter[str]:
    leases: list[bytes] = store.redis.zrange(redis_keys.LEASES, 0, -1)  # type: ignore[assignment]  # redis-py has unions
    projects: Any = [store.redis.hget(redis_keys.batch(text(lease).split(":")[0]), "project") for lease in leases]
    return Counter(map(text, projects))


def _sampled(store: Store, seconds: float) -> list[Counter[str]]:
    """The leases of each project, 20 times a second."""
    found = []
    for _ in range(round(seconds * 20)):
        found.append(_leases(store))
        time.sleep(0.05)
    return found


@contextmanager
def _many_slow_batches(store: Store, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Yields while project `p` has six slow batches, which take all loops that they may."""
    monkeypatch.setattr(unit_watch, "SLICE_S", 0.5)
    monkeypatch.setattr(unit_watch, "UNSERVED_LOOP_S", 0.2)
    with working(store, pool):
        for _ in range(6):
            of_project(store, "p", 300, SLOW)
        eventually(lambda: _leases(store)["p"] == 2)
        yield


def test_slow_batches_leave_half_the_loops_to_others(store: Store, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    with _many_slow_batches(store, pool, monkeypatch):
        of_project(store, "other", 3000, SLOW)
        time.sleep(1.0)  # until the first units have given way
        shares = sum(_sampled(store, 3.0), Counter())
        assert shares["other"] > 0.4 * shares.total()


def test_slow_batches_do_not_take_the_projects_loop(store: Store, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    with _many_slow_batches(store, pool, monkeypatch):
        others = [of_project(store, "other", 300, SLOW) for _ in range(3)]
        time.sleep(1.0)
        for other in others:
            store.batches.cancel("other", other)
        eventually(lambda: _leases(store)["other"] == 0)
        time.sleep(1.0)
        # A lease lasts a moment longer than its unit, until the outcomes are written.
        assert median(leases["p"] for leases in _sampled(store, 1.0)) == 2


ASKS = """
from gradebox import Model
judge = Model("judge")
async def grade(thread):
    return float((await judge.chat("2.0")).text)
"""


SLOW_ASKS = ASKS.replace("2.0", "slow")


class Never(EchoAsker):
    """Answers neither `slow` nor a project whose name begins with `slow`."""

    def ask(self, request: bytes, context: AskContext, wanted: Callable[[], bool]) -> Future[Answer]:
        is_slow = b"slow" in request or context.project.startswith("slow")
        return Future() if is_slow else super().ask(request, context, wanted)


def _is_in_state(store: Store, project: str, batch: str, state: str) -> bool:
    return store.batches.get(project, batch).state == state


def test_several_projects_that_wait_for_their_models_keep_no_other_from_its_own(store: Store, pool: Pool) -> None:
    """No loop leaves a chunk that asks: the first loop keeps one of them, and a second loop keeps another."""
    with working(store, pool, Never()):
        for name in ("slow-1", "slow-2", "slow-3"):
            slow = of_project(store, name, 1, ASKS)
            eventually(partial(_is_in_state, store, name, slow, "running"))
        quick = of_project(store, "quick", 1, ASKS)
        eventually(partial(_is_in_state, store, "quick", quick, "finished"), 20)
        assert store.batches.get("quick", quick).scored == 1


@pytest.mark.parametrize("project", ["p", "other"])
def test_slow_asks_of_a_project_keep_no_batch_from_its_model(store: Store, pool: Pool, project: str) -> None:
    """Its chunks take all loops that they may; batches of its own, and of other projects, still have one."""
    with working(store, pool, Never()):
        slow = [of_project(store, "p", 1, SLOW_ASKS) for _ in range(4 if project == "p" else 10)]
        for batch in slow[:4]:
            eventually(partial(_is_in_state, store, "p", batch, "running"), 20)
        _finish_beside(store, slow[0], (project, of_project(store, project, 1, ASKS)))
