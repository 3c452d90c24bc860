import time
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import OutOfMemoryError

from storage import redis_keys
from storage.access.audit import acting
from storage.connection import clock
from storage.errors import OutcomesLost
from storage.spool import lost_files
from storage.store import Store
from tests.storage.making import accept, ahead, claim, finish, finish_all, full, outcomes_of, plan_of, wanted


def test_an_accepted_batch_waits_with_all_that_was_asked(store: Store) -> None:
    batch = store.batches.get("default", accept(store, 1500, wanted(store, "a"), wanted(store, "b", 0.5)))
    assert (batch.state, batch.threads, batch.total, batch.done) == ("queued", 1500, 3000, 0)
    assert [(grader.key, grader.version, grader.weight) for grader in batch.graders] == [("a", 1, 1.0), ("b", 1, 0.5)]
    assert [summary.grader for summary in batch.summary] == ["a@1", "b@1"]


def test_a_batch_is_read_in_one_round_trip(store: Store) -> None:
    batch = accept(store, 10)
    store.batches.get("default", batch)  # Redis has the script now
    before = store.redis.info("stats")["total_reads_processed"]
    store.batches.get("default", batch)
    assert store.redis.info("stats")["total_reads_processed"] - before == 2  # one is of `info`


def test_no_time_of_a_batch_is_of_the_clock_of_the_machine_that_wrote_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = clock(store.redis)
    with ahead(monkeypatch):
        first = accept(store, 10)
        assert store.queue.depth().oldest_s < 60
        finish(store, claim(store))
    second = accept(store, 10, wanted(store, "other"))
    batch = store.batches.get("default", first)
    assert batch.started_at and batch.finished_at
    assert began < batch.created_at < batch.started_at < batch.finished_at < clock(store.redis)
    assert [one.id for one in store.batches.newest("default", 2)] == [second, first]
    with ahead(monkeypatch):
        assert not store.batches.is_lost(batch)  # a file that is missing may only not be visible yet
    assert store.batches.cancel("default", second).finished_at


def test_the_weighted_mean_needs_a_score_of_every_grader(store: Store) -> None:
    batch = accept(store, 10, wanted(store, "a", 2.0), wanted(store, "b", -1.0))
    lease = claim(store)
    finish(store, lease, outcomes_of(store, lease, score=0.5))
    assert store.batches.get("default", batch).weighted_mean is None
    lease = claim(store)
    finish(store, lease, outcomes_of(store, lease, score=0.25))
    assert store.batches.get("default", batch).weighted_mean == 0.75


def test_a_batch_keeps_its_source_after_the_grader_is_gone_and_no_longer(store: Store, redis: Redis) -> None:
    exact = wanted(store, "exact")
    first, second = accept(store, 5, exact), accept(store, 5, exact)
    store.graders.delete("default", "exact")
    plan = plan_of(store, first)
    finish(store, claim(store))
    kept = store.batches.source(plan.scorers[0])
    assert kept is not None and kept.source == exact.version.source
    store.batches.cancel("default", second)
    assert store.batches.source(plan.scorers[0]) is None
    assert not redis.exists(redis_keys.SOURCES, redis_keys.HOLDS)


def test_a_page_goes_on_behind_a_batch_that_was_deleted(store: Store) -> None:
    exact = wanted(store, "exact")
    ids = [accept(store, 1, exact) for _ in range(6)][::-1]
    store.batches.delete("default", ids[2])
    assert [batch.id for batch in store.batches.newest("default", 3, before=ids[2])] == ids[3:]


def test_the_batches_of_a_grader_are_found_without_reading_the_records_of_others(store: Store, redis: Redis) -> None:
    exact, other = wanted(store, "exact"), wanted(store, "other")
    ids = [accept(store, 1, grader) for grader in (exact, other, other, other)]
    finish_all(store)
    for batch in ids:
        store.freezer.freeze(batch)
    ids.append(accept(store, 1, exact))
    redis.config_resetstat()
    assert [batch.id for batch in store.batches.newest("default", 9, grader="exact", version=1)] == [ids[4], ids[0]]
    assert redis.info("commandstats")["cmdstat_hgetall"]["calls"] == 2
    assert store.batches.newest("default", 9, grader="exact", version=2) == []


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_lost_table_is_not_the_end_of_outcomes(store: Store, monkeypatch: pytest.MonkeyPatch, is_gone: bool) -> None:
    batch = accept(store, 40_000)
    finish_all(store)
    store.freezer.freeze(batch)
    (name,) = store.spool.tables(batch)
    path = Path(store.spool._payload(batch)).parents[1] / "outcomes" / batch / name
    if is_gone:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(OSError, match=r"cut off|No such file"):
        store.batches.standing(batch)
    monkeypatch.setattr(lost_files, "SETTLED_S", 0.0)
    with pytest.raises(OutcomesLost, match="the table of the chunks"):
        store.batches.standing(batch)


def test_a_full_redis_still_shows_its_batches(store: Store, redis: Redis) -> None:
    graders = [wanted(store, "a"), wanted(store, "b")]
    over, running = (accept(store, 10, *graders) for _ in range(2))
    for _ in range(3):
        finish(store, claim(store))

    def shown() -> list[Any]:
        batches = store.batches
        found = [batches.newest("default", 9), *map(batches.standing, (over, running)), batches.tables(over)]
        return [*found, *(batches.get("default", one) for one in (over, running))]

    before = shown()
    with full(redis):
        assert shown() == before
    store.freezer.freeze(over)
    before = [store.batches.get("default", over), store.batches.standing(over)]
    with full(redis):
        assert [store.batches.get("default", over), store.batches.standing(over)] == before


def test_a_full_redis_can_be_emptied(store: Store, redis: Redis) -> None:
    acting.set({"key": "k", "address": "", "request_id": "r"})
    exact = wanted(store, "exact")
    over = [accept(store, 10, exact) for _ in range(3)]
    for _ in over:
        finish(store, claim(store))
    store.batches.keep("default", over[0], True)
    queued = accept(store, 10, exact)
    with full(redis):
        assert store.batches.cancel("default", queued).state == "cancelled"
        store.freezer.freeze(queued)
        assert not store.batches.keep("default", over[0], False).kept
        store.batches.delete("default", over[1])
        assert store.batches.expire(time.time() + 1, 10) == 3
        assert store.batches.newest("default", 9) == []
        done = [line.action for line in store.audit.newest("default", 3)]
        with pytest.raises(OutOfMemoryError):
            accept(store, 1, exact)
    assert done == ["batch.delete", "batch.keep", "batch.cancel"]
