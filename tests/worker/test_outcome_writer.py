import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from redis import Redis

from gradebox.outcome import Outcome
from storage import redis_keys
from storage.statistics.outcome_tally import tally
from storage.store import Store
from tests.storage.making import accept, lines_of, wanted
from worker import outcome_writer
from worker.context import WorkerContext
from worker.outcome_writer import OutcomeWriter
from worker.unit import Scored
from worker.unit_queue import UnitQueue


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome_writer, "_PAUSE_S", 0.01)


def scored(queue: UnitQueue, first: int) -> Scored:
    lease = queue.next()
    assert lease is not None
    made = [Outcome(first + number, "g@1", 1.0, 0.1) for number in range(1000)]
    return Scored(
        lease, 0, "default", "g", "g@1", msgspec.json.Encoder().encode_lines(made), len(made), tally(made), 0.01
    )


def test_units_that_come_together_count_each_once(store: Store, context: WorkerContext, redis: Redis) -> None:
    batch = accept(store, 3000)
    with UnitQueue(context) as queue, OutcomeWriter(context, queue) as writer:
        for number in range(3):
            writer.add(scored(queue, 1000 * number))
        writer.flush()
        assert context.heartbeat.leases == set()
    found = store.batches.get("default", batch)
    assert (found.state, found.done, found.scored) == ("finished", 3000, 3000)
    assert [json.loads(line)["index"] for line in lines_of(store, batch)] == list(range(3000))
    assert redis.hexists(redis_keys.FROZEN, batch)
    assert not redis.exists(redis_keys.batch(batch), redis_keys.UNFROZEN, redis_keys.UNTIDY)


def test_what_cannot_be_written_is_given_back(store: Store, context: WorkerContext) -> None:
    batch = accept(store, 1000)
    in_the_way = Path(store.spool._root) / "outcomes"
    in_the_way.write_bytes(b"a file where the folder is to be")
    with UnitQueue(context) as queue, OutcomeWriter(context, queue) as writer:
        writer.add(scored(queue, 0))
        writer.flush()
        assert store.batches.get("default", batch).done == 0
        in_the_way.unlink()
        writer.add(scored(queue, 0))
    assert store.batches.get("default", batch).state == "finished"


def test_after_redis_came_back_with_older_data_what_counted_is_not_replaced(
    store: Store, context: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcome_writer, "_PAUSE_S", 5.0)
    batch = accept(store, 3000)
    for unit in (0, 1):
        store.spool.write_outcomes(batch, {(unit, 1): b"of the attempt that Redis has forgotten\n"})
    began = time.monotonic()
    with UnitQueue(context) as queue, OutcomeWriter(context, queue) as writer:
        for number in range(3):
            writer.add(scored(queue, 1000 * number))
        writer.flush()
        assert time.monotonic() - began < outcome_writer._PAUSE_S
        assert store.batches.get("default", batch).done == 1000
        again = [scored(queue, 1000 * number) for number in range(2)]
        assert [(one.lease.attempt, one.lease.tries) for one in again] == [(2, 1), (2, 1)]
        for one in again:
            writer.add(one)
    assert store.batches.get("default", batch).state == "finished"
    assert context.spool_error is None


def test_outcomes_wait_while_the_whole_spool_cannot_be_written(store: Store, context: WorkerContext) -> None:
    batch = accept(store, 1000)
    root = Path(store.spool._root)
    with UnitQueue(context) as queue, OutcomeWriter(context, queue) as writer:
        root.rename(root.with_name("away"))
        root.write_bytes(b"a file where the folder is to be")
        writer.add(scored(queue, 0))
        time.sleep(0.3)
        assert len(context.heartbeat.leases) == 1  # it was not given back to be scored again
        assert context.spool_error is not None
        root.unlink()
        root.with_name("away").rename(root)
    assert store.batches.get("default", batch).state == "finished"
    assert store.spool.outcome_files(batch) == [(0, 1)]
    assert context.spool_error is None


@pytest.mark.parametrize(
    ("is_folder", "errors"),
    [(True, [FileNotFoundError("no such folder")]), (False, [OSError("slow down")] * 5)],
    ids=["over before it is looked for", "of an object store that takes the probe alone"],
)
def test_outcomes_wait_for_the_end_of_a_trouble(
    store: Store, context: WorkerContext, monkeypatch: pytest.MonkeyPatch, is_folder: bool, errors: list[OSError]
) -> None:
    batch = accept(store, 1000)
    spool, write, left = store.spool, store.spool.write_outcomes, [*errors]

    def fail_for_a_while(batch: str, files: Mapping[tuple[int, int], bytes]) -> None:
        if left:
            raise left.pop()
        spool.files.is_folder = True
        write(batch, files)

    monkeypatch.setattr(spool.files, "is_folder", is_folder)
    monkeypatch.setattr(spool, "write_outcomes", fail_for_a_while)
    with UnitQueue(context) as queue, OutcomeWriter(context, queue) as writer:
        writer.add(scored(queue, 0))
    assert store.batches.get("default", batch).state == "finished"


def test_what_goes_wrong_with_one_batch_loses_nothing_of_the_others(
    store: Store, context: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = wanted(store, "exact")
    batches = [accept(store, 1000, exact) for _ in range(5)]
    write = store.spool.write_outcomes

    def fails_for_the_third(batch: str, files: Mapping[tuple[int, int], bytes]) -> None:
        if batch == batches[2]:
            raise RuntimeError("a fault of ours")
        write(batch, files)

    with UnitQueue(context) as queue, OutcomeWriter(context, queue) as writer:
        with monkeypatch.context() as patched:
            patched.setattr(store.spool, "write_outcomes", fails_for_the_third)
            for unit in [scored(queue, 0) for _ in range(5)]:
                writer.add(unit)
            writer.flush()
        states = [store.batches.get("default", batch).state for batch in batches]
        assert states == ["finished", "finished", "running", "finished", "finished"]
        again = scored(queue, 0)
        assert (again.lease.batch, again.lease.tries) == (batches[2], 2)
        writer.add(again)
    assert store.batches.get("default", batches[2]).state == "finished"


def test_a_finished_batch_that_cannot_be_told_of_or_frozen_counts(
    store: Store, context: WorkerContext, monkeypatch: pytest.MonkeyPatch, redis: Redis
) -> None:
    exact = wanted(store, "exact")
    first, second = accept(store, 1000, exact), accept(store, 1000, exact)
    monkeypatch.setattr(outcome_writer, "log_finished", lambda *_: 1 / 0)
    monkeypatch.setattr(store.freezer, "freeze", lambda batch: 1 / 0)
    with UnitQueue(context) as queue, OutcomeWriter(context, queue) as writer:
        for _ in range(2):
            writer.add(scored(queue, 0))
    assert [store.batches.get("default", batch).state for batch in (first, second)] == ["finished", "finished"]
    assert redis.zcard(redis_keys.UNFROZEN) == 2  # the janitor will freeze them


def test_what_waits_is_bounded_in_bytes(store: Store, context: WorkerContext, monkeypatch: pytest.MonkeyPatch) -> None:
    writing, may_write = threading.Event(), threading.Event()
    write = store.spool.write_outcomes

    def write_when_told(batch: str, files: Mapping[tuple[int, int], bytes]) -> None:
        writing.set()
        may_write.wait()
        write(batch, files)

    accept(store, 4000)
    with UnitQueue(context) as queue, OutcomeWriter(context, queue) as writer:
        units = [scored(queue, 1000 * number) for number in range(4)]
        monkeypatch.setattr(outcome_writer, "_MOST_BYTES", 2 * len(units[3].lines) + 500)
        monkeypatch.setattr(store.spool, "write_outcomes", write_when_told)
        added: list[int] = []

        def add_all() -> None:
            for number, unit in enumerate(units):
                writer.add(unit)
                added.append(number)

        adding = threading.Thread(target=add_all)
        adding.start()
        assert writing.wait(5)
        time.sleep(0.3)
        first = [*added]
        may_write.set()
        adding.join(10)
        assert first == [0, 1]
        assert added == [0, 1, 2, 3]


def test_quick_units_wait_for_no_write(store: Store, context: WorkerContext, monkeypatch: pytest.MonkeyPatch) -> None:
    write = store.spool.write_outcomes

    def write_slowly(batch: str, files: Mapping[tuple[int, int], bytes]) -> None:
        time.sleep(0.1)
        write(batch, files)

    monkeypatch.setattr(outcome_writer, "_GATHER_S", 0.1)
    monkeypatch.setattr(store.spool, "write_outcomes", write_slowly)
    accept(store, 60_000)
    with UnitQueue(context) as queue, OutcomeWriter(context, queue) as writer:
        units = [scored(queue, 1000 * number) for number in range(50)]
        waits = []
        for unit in units:
            began = time.monotonic()
            writer.add(unit)
            waits.append(time.monotonic() - began)
            time.sleep(0.03)
        assert max(waits) < 0.05  # seven units come while one is written, and there is room for them


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dead_writer_holds_nobody_up(store: Store, context: WorkerContext, monkeypatch: pytest.MonkeyPatch) -> None:
    accept(store, 1000)

    def fails(*_arguments: object, **_more: object) -> None:
        raise RuntimeError("a fault of ours")

    with UnitQueue(context) as queue, OutcomeWriter(context, queue) as writer:
        unit = scored(queue, 0)
        monkeypatch.setattr(store.spool, "write_outcomes", fails)
        monkeypatch.setattr(queue, "give_back", fails)
        writer.add(unit)
        with pytest.raises(RuntimeError, match="the thread that writes outcomes has ended"):
            writer.flush()
        with pytest.raises(RuntimeError, match="the thread that writes outcomes has ended"):
            writer.add(unit)
