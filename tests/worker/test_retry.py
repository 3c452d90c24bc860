"""Tests of retries with real graders and workers. The tests write the retryable outcomes."""

import itertools
import json
import random
import threading
import time
from pathlib import Path

import pytest

from gradebox.outcome import CompletionScore, Outcome, OutcomeError, with_completion_scores
from storage import redis_keys
from storage.store import Store
from tests.earlier_outcomes import in_earlier_form
from tests.storage.making import accept, claim, finish, lines_of, outcomes_of, wanted
from tests.waiting import eventually
from tests.worker.conftest import Start, end_leases, over, scored, written
from worker import unit_watch as watches
from worker.context import WorkerContext
from worker.dispatch import Dispatch
from worker.scoring_loop import ScoringLoop
from worker.unit import Scored

pytestmark = pytest.mark.sandbox
NEW = "async def grade(thread):\n    return 1000.0 + float(thread.completion())\n"
SLOW = "import time\n" + NEW.replace("    return", "    time.sleep(0.02)\n    return")


def retryable(place: int) -> bool:
    return place % 7 == 3


def finished(store: Store, lines: int, source: str) -> str:
    """A finished batch, in which some outcomes are retryable and some others have an error that is not retryable."""
    batch = accept(store, lines, wanted(store, "g", source=source))
    while (lease := store.leases.claim()) is not None:
        found = outcomes_of(store, lease)
        for place, outcome in enumerate(found):
            if retryable(outcome.index):
                error = OutcomeError("model", "away", retryable=True, cause="unreachable")
                found[place] = Outcome(outcome.index, outcome.grader, None, 0.5, outcome.index, error=error)
            elif outcome.index % 7 == 5:
                error = OutcomeError("exception", "boom")
                found[place] = Outcome(outcome.index, outcome.grader, None, 0.5, outcome.index, error=error)
        assert finish(store, lease, found)
    store.freezer.freeze(batch)
    return batch


def check(store: Store, batch: str, before: list[bytes]) -> None:
    """Checks that each retryable outcome has a new score and all others are unchanged, to the byte."""
    after = lines_of(store, batch)
    assert len(after) == len(before)
    for place, (old, new) in enumerate(zip(before, after, strict=True)):
        if retryable(place):
            found = json.loads(new)
            assert (found["index"], found["score"], found["id"]) == (place, 1000.0 + place, place)
        else:
            assert new == old
    counted = store.batches.get("default", batch)
    failed = sum(place % 7 == 5 for place in range(len(before)))
    assert (counted.state, counted.done, counted.scored) == ("finished", len(before), len(before) - failed)
    assert counted.errors == {"exception": failed}
    scores = [found["score"] for line in after if (found := json.loads(line))["score"] is not None]
    assert counted.summary[0].maximum == max(scores) and counted.summary[0].scored == len(scores)
    assert counted.summary[0].mean == pytest.approx(sum(scores) / len(scores))


def again(context: WorkerContext) -> Scored:
    """Scores the next unit and writes its outcomes."""
    found = scored(context, claim(context.store))
    assert found is not None
    written(context, found)
    return found


SIZES = """
async def grade(threads: list[StringThread]) -> list[float]:
    return [float(len(threads))] * len(threads)
"""


def group(number: int) -> bytes:
    return json.dumps({"id": number, "completions": ["a"] * (number % 5 + 1)}).encode() + b"\n"


def test_groups_that_are_retryable_are_scored_again_whole(store: Store, context: WorkerContext) -> None:
    batch = accept(store, 40, wanted(store, "g", source=SIZES), line=group)
    lease = claim(store)
    found = []
    for outcome in outcomes_of(store, lease):
        error = OutcomeError("model", "away", retryable=True, cause="unreachable") if retryable(outcome.index) else None
        size = outcome.index % 5 + 1
        scores = [CompletionScore(0.5)] * (size - 1) + [CompletionScore(None if error else 0.5, error=error)]
        score = None if error else 0.5
        whole = Outcome(outcome.index, outcome.grader, score, 0.5, outcome.index, error=error)
        found.append(with_completion_scores(whole, scores))
    assert finish(store, lease, found)
    file = Path(store.spool._outcomes(batch, lease.unit, lease.attempt))
    kept = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(in_earlier_form(line) if place % 2 else line for place, line in enumerate(kept)))
    store.freezer.freeze(batch)
    before = lines_of(store, batch)
    context.dispatch.retry("default", batch)
    again(context)
    for place, (old, new) in enumerate(zip(before, lines_of(store, batch), strict=True)):
        if retryable(place):
            size = place % 5 + 1
            told = json.loads(new)
            assert (told["scores"], "completions" in told) == ([float(size)] * size, False)
            assert (told["id"], told["score"], "error" in told) == (place, float(size), False)
        else:
            assert new == old
    counted = store.batches.get("default", batch)
    assert (counted.state, counted.scored, counted.errors) == ("finished", 40, {})


def test_the_counts_of_what_stays_never_go_down_in_a_retry(
    store: Store, context: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a worker leaves a chunk in the middle and another worker continues it."""
    monkeypatch.setattr(watches, "SLICE_S", 0.5)
    batch = finished(store, 1200, SLOW)
    before = lines_of(store, batch)
    again_lines = sum(map(retryable, range(1200)))
    failed = sum(place % 7 == 5 for place in range(1200))
    was = store.batches.get("default", batch).summary[0]
    context.dispatch.retry("default", batch)
    store.projects.ensure("other")
    accept(store, 1, wanted(store, "o", source=NEW, project="other"), project="other")
    seen = [store.batches.get("default", batch)]
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.02):
            seen.append(store.batches.get("default", batch))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        parts = [again(context)]
        assert not parts[0].whole and parts[0].outcomes > 0
        assert lines_of(store, batch) == []
        assert claim(store).batch != batch
        while store.batches.get("default", batch).state == "running":
            parts.append(again(context))
    finally:
        ended.set()
        looking.join()
    check(store, batch, before)
    assert sum(part.counted.count for part in parts if part.whole) == again_lines
    stay = 1200 - again_lines
    assert len({one.done + one.underway for one in seen}) > 10  # the batch was read while it ran
    for one, later in itertools.pairwise(seen):
        assert stay <= one.done + one.underway <= later.done + later.underway <= 1200
        assert stay - failed <= one.scored <= later.scored
        assert one.errors["exception"] == failed
        assert one.not_applicable == 0
        (summary,) = one.summary
        assert summary.scored >= was.scored == stay - failed
        assert summary.maximum is not None and was.maximum is not None and summary.maximum >= was.maximum
    assert seen[0].summary[0].mean == was.mean


def test_a_retry_that_was_tried_too_often_leaves_the_earlier_outcomes(store: Store, context: WorkerContext) -> None:
    batch = finished(store, 20, NEW)
    before = lines_of(store, batch)
    context.dispatch.retry("default", batch)
    store.leases.attempts = 0
    again(context)
    assert lines_of(store, batch) == before
    assert store.batches.get("default", batch).errors == {"model": 3, "exception": 3}


@pytest.mark.parametrize("lost", ["removed", "unreadable", "cut", "no UTF-8"])
def test_a_unit_whose_outcomes_are_gone_stays_and_a_batch_ends(store: Store, context: WorkerContext, lost: str) -> None:
    batch = finished(store, 1200, NEW)  # units of 200, 200, 200, 200, 200, 200 lines
    before = store.batches.get("default", batch)
    context.dispatch.retry("default", batch)
    path = Path(store.spool._outcomes(batch, 1, 1))
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"boom", b"bo\xffm", 1) if lost == "no UTF-8" else whole[:5000])
    if lost in ("removed", "unreadable"):  # tried again first: perhaps only this worker cannot read the file
        store.leases.attempts = 1
        path.unlink()
    if lost == "unreadable":
        path.mkdir()
    began = time.monotonic()
    with ScoringLoop(context) as loop:
        while loop.work() or store.redis.zcard(redis_keys.LEASES):
            loop.flush()
            store.leases.beat([])  # gives back what waits for its next try
    assert time.monotonic() - began < 20
    found = store.batches.get("default", batch)
    again = sum(retryable(place) for place in range(1200) if not 200 <= place < 400)
    assert (found.state, found.done, found.scored) == ("finished", 1200, before.scored + again)
    assert found.errors == {"model": before.errors["model"] - again, "exception": before.errors["exception"]}
    assert found.summary[0].errors == found.errors
    assert found.summary[0].scored == found.scored
    assert store.redis.hexists(redis_keys.FROZEN, batch)  # as after any end
    assert store.redis.zcard(redis_keys.LEASES) == 0
    assert int(store.redis.hget(redis_keys.WAITING, "default") or 0) == 0


@pytest.mark.slow
def test_workers_that_are_killed_in_a_retry_lose_nothing(store: Store, dispatch: Dispatch, start: Start) -> None:
    batch = finished(store, 1500, SLOW)
    before = lines_of(store, batch)
    dice = random.Random(3)
    assert dispatch.retry("default", batch).state == "running"
    for _ in range(4):
        worker = start()
        eventually(lambda: store.redis.zcard(redis_keys.LEASES) > 0)
        time.sleep(dice.uniform(0.2, 1.5))
        worker.kill()
        worker.wait()
        end_leases(store)
        assert dispatch.retry("default", batch).state in ("running", "finished")
        if store.batches.get("default", batch).state == "finished":
            break
    start()
    over(store, batch)
    check(store, batch, before)
