"""Tests of what a worker keeps between units."""

import time
from typing import cast

import pytest
from redis import Redis

from gradebox.outcome import Outcome, OutcomeError
from gradebox.schemas import FeedbackOf
from models.asks.asker import Asker
from storage import redis_keys
from storage.batches import feedback_grader
from storage.store import Store
from tests.storage.making import accept, claim, finish_all
from worker.context import WorkerContext
from worker.loaded_grader import GraderCache

pytestmark = pytest.mark.sandbox


def away(made: Outcome) -> Outcome:
    error = OutcomeError("model", "away", retryable=True, cause="unreachable")
    return Outcome(made.index, made.grader, None, 0.5, error=error)


def test_retried_feedback_is_scored_by_a_worker_that_knows_the_first_plan(store: Store, context: WorkerContext) -> None:
    of = FeedbackOf(batch=accept(store, 1), grader="exact@1", model="m")
    finish_all(store)
    batch = accept(store, 1, feedback_grader.wanted(store.graders, "default", of), feedback_of=of)
    with GraderCache(store, context.pool, cast(Asker, object())) as cache:
        cache.plan(batch)
        finish_all(store, away, "asking")
        context.dispatch.retry("default", batch)  # its source differs, if only by the time at which it was made
        for _ in range(2):
            lease, plan = claim(store, "asking"), cache.plan(batch)
            assert plan is not None
            loaded = cache.load(lease, plan.scorers[0])
            store.leases.release(lease)
        assert loaded is not None and loaded.asks


def test_whether_a_project_has_room_is_asked_once_a_second(
    store: Store, context: WorkerContext, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with GraderCache(store, context.pool) as cache:
        for stored, found in ((1 << 60, False), (0, True), (1 << 60, True)):  # only that there is room is kept
            redis.hset(redis_keys.STORED, "default", stored)
            assert cache.has_room("default") == found
        redis.hset(redis_keys.STORED, "other", 1 << 60)
        assert not cache.has_room("other")
        later = time.monotonic() + 1
        monkeypatch.setattr("worker.loaded_grader.monotonic", lambda: later)
        assert not cache.has_room("default")
