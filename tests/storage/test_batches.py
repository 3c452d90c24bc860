import random
import statistics
import time
from pathlib import Path

import msgspec
import pytest
from redis import Redis

from storage import lost_files, redis_keys
from storage.chunks import Chunk
from storage.errors import NotFound, OutcomesLost, PayloadLost
from storage.janitor import Janitor
from storage.statistics import unpack
from storage.store import Store
from storage.unit_tallies import Tallies
from tests.storage.making import accept, claim, failed, finish, outcomes_of, wanted


def test_an_accepted_batch_waits_with_all_that_was_asked(store: Store) -> None:
    batch = store.batches.get("default", accept(store, 1500, wanted(store, "a"), wanted(store, "b", 0.5)))
    assert (batch.state, batch.threads, batch.total, batch.done) == ("queued", 1500, 3000, 0)
    assert [(grader.key, grader.version, grader.weight) for grader in batch.graders] == [("a", 1, 1.0), ("b", 1, 0.5)]
    assert [summary.grader for summary in batch.summary] == ["a@1", "b@1"]


def test_what_is_enqueued_with_a_batch_is_in_the_same_transaction(store: Store, redis: Redis) -> None:
    def fails(pipe: object) -> None:
        raise RuntimeError("no jobs today")

    graders = [wanted(store, "a")]
    batch_id = store.orphan_files.begin()
    with pytest.raises(RuntimeError):
        store.batches.accept(batch_id, "default", graders, [Chunk(0, 3, 0, 1)], fails)
    assert not redis.exists(redis_keys.batch(batch_id), redis_keys.TURNS, redis_keys.SOURCES)


def test_the_parts_of_a_summary_come_together_as_the_whole_would(store: Store) -> None:
    random.seed(7)
    scores = [random.gauss(3, 1) for _ in range(4200)]
    batch = accept(store, len(scores))
    leases = [claim(store) for _ in range(5)]
    random.shuffle(leases)
    for lease in leases:
        outcomes = [
            failed(one.index, one.grader)
            if one.index % 10 == 0
            else msgspec.structs.replace(one, score=scores[one.index])
            for one in outcomes_of(store, lease)
        ]
        finish(store, lease, outcomes)
    expected = [score for index, score in enumerate(scores) if index % 10]
    found = store.batches.get("default", batch)
    (summary,) = found.summary
    assert summary.mean == pytest.approx(statistics.mean(expected), rel=1e-12)
    assert summary.deviation == pytest.approx(statistics.pstdev(expected), rel=1e-12)
    assert (summary.minimum, summary.maximum) == (min(expected), max(expected))
    assert summary.quantiles["p50"] == pytest.approx(statistics.median(expected), rel=0.01)
    assert found.errors == summary.errors == {"exception": 420}
    assert sum(part.count for part in summary.histogram) == len(expected)


def test_so_many_different_scores_are_counted_coarsely(store: Store, redis: Redis) -> None:
    batch = accept(store, 30_000)
    random.seed(7)
    while lease := store.leases.claim():
        outcomes = [
            msgspec.structs.replace(one, score=random.random() * 10 ** random.randrange(12))
            for one in outcomes_of(store, lease)
        ]
        finish(store, lease, outcomes)
    redis.hset(redis_keys.batch(batch), "state", "running")  # the state before its last unit
    Tallies(redis).merge(batch, 0)
    (packed,) = redis.lrange(redis_keys.tallies(batch, 0), 0, -1)
    assert 1000 < len(unpack(packed).values) <= 5000  # type: ignore[arg-type]  # redis-py returns bytes here
    (summary,) = store.batches.get("default", batch).summary
    assert sum(part.count for part in summary.histogram) == 30_000


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
    plan = store.batches.plan(first)
    assert plan is not None
    finish(store, claim(store))
    kept = store.batches.source(plan.scorers[0])
    assert kept is not None
    assert kept.source == exact.version.source
    store.batches.cancel("default", second)
    assert store.batches.source(plan.scorers[0]) is None
    assert not redis.exists(redis_keys.SOURCES, redis_keys.HOLDS)


def test_batches_are_listed_newest_first_and_page_by_page(store: Store) -> None:
    exact = wanted(store, "exact")
    ids = [accept(store, 1, exact) for _ in range(5)][::-1]
    assert [batch.id for batch in store.batches.newest("default", 3)] == ids[:3]
    assert [batch.id for batch in store.batches.newest("default", 3, before=ids[2])] == ids[3:]


def test_a_page_goes_on_behind_a_batch_that_was_deleted(store: Store) -> None:
    exact = wanted(store, "exact")
    ids = [accept(store, 1, exact) for _ in range(6)][::-1]
    store.batches.delete("default", ids[2])
    assert [batch.id for batch in store.batches.newest("default", 3, before=ids[2])] == ids[3:]


def test_a_batch_of_another_project_is_not_found(store: Store) -> None:
    batch = accept(store, 1)
    for ask in (store.batches.get, store.batches.cancel, store.batches.delete):
        with pytest.raises(NotFound):
            ask("other", batch)


def test_cancelling_what_is_over_changes_nothing(store: Store) -> None:
    batch = accept(store, 1)
    finish(store, claim(store))
    assert store.batches.cancel("default", batch).state == "finished"


def test_an_upload_that_broke_off_is_swept_away(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = accept(store, 1)
    batch_id = store.orphan_files.begin()
    with store.spool.writing_payload(batch_id) as file:
        file.write(b"{}\n")
    Janitor(store, None).look()
    assert store.spool.read_payload(batch_id, 0, 3) == b"{}\n"
    later = time.time() + 25 * 3600
    monkeypatch.setattr(time, "time", lambda: later)
    Janitor(store, None).look()
    with pytest.raises(PayloadLost):
        store.spool.read_payload(batch_id, 0, 3)
    assert store.spool.read_payload(kept, 0, 1) == b"{"
    assert store.orphan_files.due() == []


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_table_that_is_lost_is_not_the_end_of_the_outcomes(
    store: Store, monkeypatch: pytest.MonkeyPatch, is_gone: bool
) -> None:
    batch = accept(store, 40_000)
    while lease := store.leases.claim():
        finish(store, lease)
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
