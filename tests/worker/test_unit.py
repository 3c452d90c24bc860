import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from redis import Redis

from gradebox.outcome import Outcome, OutcomeError
from gradebox.schemas import EnvironmentUse
from sandbox.errors import InfrastructureError, Unusable
from sandbox.grading.grading import Grading
from storage import redis_keys
from storage.batch_plan import Wanted
from storage.queue.leases import UnitPart
from storage.store import Store
from tests.storage.making import accept, claim, wanted
from tests.worker.conftest import scored, written
from worker import unit_watch as watches
from worker.context import WorkerContext
from worker.unit import Scored

pytestmark = pytest.mark.sandbox
QUICK = "async def grade(thread):\n    return float(thread.completion())\n"
SLOW = "import time\nasync def grade(thread):\n    time.sleep(0.2)\n    return float(thread.completion())\n"


def scores(unit: Scored) -> list[float | None]:
    return [one.score for one in msgspec.json.Decoder(Outcome).decode_lines(unit.lines)]


def test_a_slow_unit_makes_room_and_the_next_attempt_goes_on(
    store: Store, context: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "SLICE_S", 0.5)
    batch = accept(store, 12, wanted(store, "g", source=SLOW))
    other = accept(store, 1, wanted(store, "other", source=QUICK), project="other")
    first = claim(store)
    assert first.batch == batch

    part = scored(context, first)

    assert part is not None
    done = part.counted.count
    assert not part.whole and 0 < done < 12
    written(context, part)
    assert store.batches.get("default", batch).underway == done
    assert claim(store).batch == other
    second = claim(store)
    assert (second.batch, second.tries, second.part) == (batch, 1, UnitPart(1, done))
    monkeypatch.setattr(watches, "SLICE_S", 60.0)
    whole = scored(context, second)
    assert whole is not None and whole.whole
    assert whole.lines.startswith(part.lines)  # the first part is not scored again
    written(context, whole)
    assert scores(whole) == [float(number) for number in range(12)]
    found = store.batches.get("default", batch)
    assert (found.state, found.scored) == ("finished", 12)
    assert store.spool.outcome_files(batch) == [(0, 2)]


def test_a_load_takes_nothing_of_a_slice(store: Store, context: WorkerContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "SLICE_S", 0.8)
    accept(store, 12, wanted(store, "g", source=f"import time\ntime.sleep(0.9)\n{SLOW}"))
    accept(store, 1, wanted(store, "other", source=QUICK), project="other")
    part = scored(context, claim(store))
    assert part is not None and not part.whole
    assert part.counted.count >= 3


def test_a_unit_is_not_left_for_nobody(store: Store, context: WorkerContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "SLICE_S", 0.1)
    accept(store, 6, wanted(store, "g", source=SLOW))
    accept(store, 6, wanted(store, "more", source=SLOW))
    first = claim(store)
    claim(store)
    found = scored(context, first)
    assert found is not None and found.whole


@pytest.mark.parametrize("after_s", [0.0, 0.5])
def test_a_unit_of_a_cancelled_batch_is_ended_soon(store: Store, context: WorkerContext, after_s: float) -> None:
    batch = accept(store, 100, wanted(store, "g", source=SLOW))
    lease = claim(store)
    cancel = threading.Timer(after_s, store.batches.cancel, ("default", batch))
    cancel.start()
    if not after_s:
        cancel.join()
    began = time.monotonic()
    found = scored(context, lease)
    assert time.monotonic() - began < 4  # all of it takes 20 s
    assert found is None or after_s
    assert store.batches.get("default", batch).state == "cancelled"


def test_a_kept_part_that_is_lost_is_scored_again(store: Store, context: WorkerContext) -> None:
    batch = accept(store, 10, wanted(store, "g", source=QUICK))
    store.leases.release(claim(store), tried=False, outcomes=4)
    lease = claim(store)
    assert lease.part is not None
    assert not store.spool.outcome_files(batch)
    found = scored(context, lease)
    assert found is not None and scores(found) == [float(number) for number in range(10)]


def test_a_kept_part_that_cannot_be_read_is_tried_a_few_times(store: Store, context: WorkerContext) -> None:
    batch = accept(store, 10, wanted(store, "g", source=QUICK))
    store.leases.release(claim(store), tried=False, outcomes=4)
    Path(store.spool._outcomes(batch, 0, 1)).mkdir(parents=True)  # as unreadable as a bad sector
    store.leases.attempts = 1
    lease = claim(store)
    with pytest.raises(OSError):
        scored(context, lease)
    store.leases.release(lease)
    last = scored(context, claim(store))
    assert last is not None and (last.whole, last.counted.errors) == (True, {"infrastructure": 10})


def test_what_was_done_counts_when_the_rest_is_given_up(store: Store, context: WorkerContext) -> None:
    batch = accept(store, 10, wanted(store, "g", source=QUICK))
    first = claim(store)
    whole = scored(context, first)
    assert whole is not None
    four = b"".join(whole.lines.splitlines(keepends=True)[:4])
    store.spool.write_outcomes(batch, {(0, 1): four})
    store.leases.release(first, tried=False, outcomes=4)
    for _ in range(store.leases.attempts):
        store.leases.release(claim(store))
    last = scored(context, claim(store))
    assert last is not None and last.whole and last.lines.startswith(four)
    assert (last.counted.scored, last.counted.errors) == (4, {"infrastructure": 6})
    assert last.lines.count(b'"retryable":true') == 6
    assert [outcome.id for outcome in msgspec.json.Decoder(Outcome).decode_lines(last.lines)] == list(range(10))


def test_packages_that_are_gone_are_tried_a_few_times_and_then_named(
    store: Store, context: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context.pool.environments, "_fetch", store.spool.open_archive)
    grader = wanted(store, "g", source=QUICK)
    lost = EnvironmentUse(key="math", build=1, sha256="f" * 64)
    accept(store, 3, Wanted("g", grader.version.model_copy(update={"environment": lost})))
    store.leases.attempts = 2
    first = claim(store)
    with pytest.raises(Unusable):
        scored(context, first)
    store.leases.release(first)
    last = scored(context, claim(store))
    assert last is not None and (last.whole, last.counted.errors) == (True, {"infrastructure": 3})
    assert last.lines.count(b"are gone from the service's storage: update the environment with the same") == 3
    assert last.lines.count(b"in its graders, and send this thread again in a new batch: a retry keeps") == 3
    assert last.lines.count(b'"retryable":true') == 3


@pytest.mark.parametrize("last", [65_000, 65_535, 65_536])
def test_a_unit_is_given_up_before_its_attempts_have_no_numbers_left(
    last: int, store: Store, context: WorkerContext, redis: Redis
) -> None:
    """Two bytes store the attempt that counts. 65,536 was stored as 0: the batch finished without its outcomes."""
    batch = accept(store, 3, wanted(store, "g", source=QUICK))
    store.leases.release(claim(store), tried=False)
    for kept in (redis_keys.attempts(batch), f"{redis_keys.batch(batch)}:untried"):
        redis.hset(kept, "0", str(last - 1))
    store.leases.release(claim(store), tried=False)
    found = scored(context, claim(store))
    assert found is not None and found.whole and found.counted.errors == {"infrastructure": 3}
    assert b"tried 65" in found.lines
    written(context, found)
    assert store.batches.get("default", batch).state == "finished"
    assert store.spool.outcome_files(batch) == [(0, min(last + 1, 65_535))]


def _out_of_sandboxes(after: int) -> Callable[..., list[Outcome]]:
    """Replaces `Grading.score` with a call that has no sandbox after this many outcomes."""
    ours = OutcomeError("infrastructure", "no sandbox was left", retryable=True)

    def score(_self: Grading, _payload: bytes, first: int, label: str, lines: int, **_more: object) -> list[Outcome]:
        good = [Outcome(first + number, label, 1.0, 0.0) for number in range(after)]
        return good + [Outcome(first + number, label, None, 0.0, error=ours) for number in range(after, lines)]

    return score


def test_what_was_scored_before_a_fault_of_ours_is_kept_and_the_rest_comes_again(
    store: Store, context: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept(store, 10, wanted(store, "g", source=QUICK))
    with monkeypatch.context() as patched:
        patched.setattr(Grading, "score", _out_of_sandboxes(after=4))
        found = scored(context, claim(store))
    assert found is not None and (found.whole, scores(found)) == (False, [1.0] * 4)
    written(context, found)
    again = scored(context, claim(store))
    assert again is not None
    assert (again.whole, scores(again)) == (True, [1.0] * 4 + [float(number) for number in range(4, 10)])


def test_a_fault_of_ours_before_any_score_is_no_outcome(
    store: Store, context: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept(store, 10, wanted(store, "g", source=QUICK))
    monkeypatch.setattr(Grading, "score", _out_of_sandboxes(after=0))
    with pytest.raises(InfrastructureError, match="no sandbox was left"):
        scored(context, claim(store))


def test_a_project_without_room_for_more_outcomes_gets_errors_and_no_files_of_size(
    store: Store, context: WorkerContext, redis: Redis
) -> None:
    accept(store, 10, wanted(store, "g", source=QUICK))
    redis.hset(redis_keys.STORED, "default", 1 << 60)
    found = scored(context, claim(store))
    assert found is not None
    assert (found.whole, scores(found), found.counted.errors) == (True, [None] * 10, {"infrastructure": 10})
    assert b"delete some batches" in found.lines
