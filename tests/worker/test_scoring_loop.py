"""Tests that a worker takes no unit while it has no sandbox, and continues as soon as it has one."""

import errno
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox.errors import InfrastructureError
from sandbox.pool.pool import Pool
from storage.store import Store
from tests.sandbox.pool.test_pool import Counted, counted, grade, source
from tests.waiting import eventually
from tests.worker.conftest import scores, submit
from worker import scoring_loop
from worker.context import WorkerContext
from worker.dispatch import Dispatch
from worker.scoring_loop import ScoringLoop

pytestmark = pytest.mark.sandbox
SOURCE = "async def grade(thread):\n    return float(thread.completion())\n"


@pytest.fixture
def backend_and_pool() -> Iterator[tuple[Counted, Pool]]:
    with counted(most_sandboxes=2) as made:
        yield made


@pytest.fixture
def sandboxes(backend_and_pool: tuple[Counted, Pool]) -> Pool:
    return backend_and_pool[1]


def test_units_are_taken_again_within_seconds_of_the_first_sandbox(
    store: Store, dispatch: Dispatch, context: WorkerContext, backend_and_pool: tuple[Counted, Pool]
) -> None:
    backend, pool = backend_and_pool
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
    store: Store, dispatch: Dispatch, context: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = submit(store, dispatch, 3, SOURCE)
    with ScoringLoop(context) as loop:
        with monkeypatch.context() as broken:
            broken.setattr(scoring_loop, "_LONGEST_PAUSE_S", 0.0)
            broken.setattr(scoring_loop, "score", lambda *_: b"\xff".decode())
            assert loop.work()
        assert store.leases.beat([]).returned == 1
        assert loop.work()
        loop.flush()
    assert scores(store, batch) == [0.0, 1.0, 2.0]
    assert store.batches.settled(batch) == [2]  # the second attempt counts


def test_a_grader_that_took_long_to_load_grades_for_as_long_before_the_next_turn(
    store: Store, dispatch: Dispatch, context: WorkerContext
) -> None:
    batches = [submit(store, dispatch, lines, f"import time\ntime.sleep(0.5)\n{SOURCE}") for lines in (1000, 1001)]
    with ScoringLoop(context) as loop:
        assert all(loop.work() for _ in range(5))
        loop.flush()
    assert [store.batches.get("default", batch, summary=False).done for batch in batches] == [1000, 0]


def test_a_chunk_that_is_given_up_has_no_longer_turn(
    store: Store, dispatch: Dispatch, context: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(store, dispatch, 2, f"import time\ntime.sleep(0.3)\n{SOURCE}")
    with ScoringLoop(context) as loop:
        assert loop.work()
        monkeypatch.setattr(store.leases, "attempts", 0)
        monkeypatch.setattr(scoring_loop, "_LONGEST_TURN_S", 0.0)
        batches = [submit(store, dispatch, lines, SOURCE) for lines in (1000, 1)]
        assert loop.work() and loop.work()
        loop.flush()
    assert store.batches.get("default", batches[1], summary=False).done == 1


@pytest.mark.parametrize("fault", ["cannot be read", "is gone with the whole spool"])
def test_a_batch_that_cannot_be_scored_holds_up_no_other(
    store: Store, dispatch: Dispatch, context: WorkerContext, fault: str
) -> None:
    broken = submit(store, dispatch, 5000, SOURCE)
    payload = Path(store.spool._root) / "payloads" / f"{broken}.jsonl"
    kept = payload.read_bytes()
    payload.unlink()
    if fault == "cannot be read":
        payload.mkdir()
    good = submit(store, dispatch, 300, SOURCE)
    began = time.monotonic()
    with ScoringLoop(context) as loop:
        while store.batches.get("default", good).state != "finished":
            assert loop.work()
            loop.flush()
        assert time.monotonic() - began < 5
        while loop.work():
            pass
        found = store.batches.get("default", broken)
        assert (found.state, found.done) == ("running", 0)  # its chunks wait for their next attempt
        if fault == "cannot be read":
            payload.rmdir()
        payload.write_bytes(kept)
        eventually(lambda: store.leases.beat([]).returned > 0, 20.0)

        def is_finished() -> bool:
            store.leases.beat([])  # gives back what waits for its next try
            loop.work()
            loop.flush()
            return store.batches.get("default", broken).state == "finished"

        eventually(is_finished, 30.0)
    assert scores(store, broken) == [float(number) for number in range(5000)]


def test_a_spool_that_cannot_be_used_for_a_while_costs_no_try(
    store: Store, dispatch: Dispatch, context: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring_loop, "_SPOOL_PAUSE_S", 0.01)
    batch = submit(store, dispatch, 3, SOURCE)
    root = Path(store.spool._root)
    with ScoringLoop(context) as loop, ThreadPoolExecutor(1) as thread:
        root.rename(root.with_name("away"))
        root.write_bytes(b"a file where the folder is to be")
        worked = thread.submit(lambda: [loop.work() for _ in range(2)])
        try:
            time.sleep(0.5)
            assert not worked.done()
        finally:
            root.unlink()
            root.with_name("away").rename(root)
        assert worked.result(5) == [True, True]
        loop.flush()
    assert scores(store, batch) == [0.0, 1.0, 2.0]
    assert store.batches.settled(batch) == [2]  # the first try after the outage, however long it was


def test_a_chunk_whose_spool_cannot_be_asked_is_given_back(
    store: Store, dispatch: Dispatch, context: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = submit(store, dispatch, 3, SOURCE)
    store.spool.remove(batch)

    def is_there(_batch: str) -> bool:
        raise OSError(errno.EIO, "the disk does not answer")

    monkeypatch.setattr(store.spool, "is_there", is_there)
    with ScoringLoop(context) as loop:
        assert loop.work()
        assert context.heartbeat.leases == set()  # it is not renewed, so another attempt follows
