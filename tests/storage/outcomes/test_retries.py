from pathlib import Path
from typing import Any

import msgspec
import pytest

from gradebox.outcome import Outcome, OutcomeError
from gradebox.schemas import Batch
from storage import redis_keys
from storage.batch_plan import AskTerms
from storage.batches import frozen_batch
from storage.batches.frozen_batch import Frozen
from storage.connection import text
from storage.errors import Conflict, KeyReused, OutcomesLost
from storage.idempotency import Once, once
from storage.janitor import Janitor
from storage.models.spending import Budget
from storage.queue.backlog import Waiting
from storage.queue.leases import Completed
from storage.spool import lost_files
from storage.spool.chunks import CHUNK_LINES
from storage.statistics.outcome_tally import tally
from storage.store import Store
from tests.storage.making import accept, claim, complete, finish, finish_all, lines_of, outcomes_of, plan_of, wanted

LINES = 2 * CHUNK_LINES
AWAY = 7  # the thread whose outcome is retryable, in the first chunk


def away(index: int, grader: str) -> Outcome:
    return Outcome(index, grader, None, 0.5, error=OutcomeError("model", "away", True, "unreachable"))


def with_error(made: Outcome) -> Outcome:
    return away(AWAY, made.grader) if made.index == AWAY and made.grader in ("exact@1", "a@1") else made


def finished(store: Store, *graders: Any) -> str:
    """A frozen batch of two chunks with one retryable outcome."""
    batch = accept(store, LINES, *graders)
    finish_all(store, with_error)
    store.freezer.freeze(batch)
    assert store.redis.hexists(redis_keys.FROZEN, batch)
    return batch


def unfrozen(store: Store) -> str:
    """As `finished`, but the worker that ended the batch has not frozen it yet."""
    batch = accept(store, LINES)
    finish_all(store, with_error)
    return batch


def retry(store: Store, batch: str) -> Batch:
    return store.retries.begin("default", batch, lambda wanted, units: None)


def counts(batch: Batch) -> tuple[Any, ...]:
    return batch.state, batch.done, batch.scored, batch.errors, [(one.count, one.scored) for one in batch.summary]


@pytest.mark.parametrize("ended", [False, True])
def test_a_retry_that_begins_while_its_batch_is_frozen_goes_on(
    ended: bool, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = unfrozen(store)
    rewards = store.batches.rewards

    def retried(read: Batch) -> list[str]:
        patched.undo()
        retry(store, batch)
        if ended:
            store.batches.cancel("default", batch)
        return rewards(read)

    with monkeypatch.context() as patched:
        patched.setattr(store.batches, "rewards", retried)
        store.freezer.freeze(batch)
    assert not store.redis.hexists(redis_keys.FROZEN, batch)
    found = store.batches.get("default", batch)
    assert (found.state, found.done) == (("finished", LINES) if ended else ("running", LINES - 1))


def test_a_finished_batch_runs_again_for_the_units_with_retryable_outcomes(store: Store) -> None:
    batch = finished(store)
    before = lines_of(store, batch)
    created_at = store.batches.get("default", batch).created_at
    now = retry(store, batch)
    stay = LINES - 1
    assert counts(now) == ("running", stay, stay, {}, [(stay, stay)])
    assert now.underway == 0
    assert (now.created_at, now.finished_at) == (created_at, None)
    assert store.backlog.usage("default").waiting == Waiting(1, 1)
    lease = claim(store)
    assert (lease.unit, lease.attempt, lease.tries, lease.earlier) == (0, 2, 1, 1)
    assert store.leases.claim() is None
    assert lines_of(store, batch) == []  # only chunks before the first unfinished one

    assert finish(store, lease, outcomes_of(store, lease))

    done = store.batches.get("default", batch)
    assert counts(done) == ("finished", LINES, LINES, {}, [(LINES, LINES)])
    assert done.summary[0].maximum == LINES - 1
    assert store.backlog.usage("default").waiting == Waiting(0, 0)
    now_lines = lines_of(store, batch)
    assert [place for place in range(LINES) if now_lines[place] != before[place]] == [AWAY]
    store.freezer.freeze(batch)
    assert counts(store.batches.get("default", batch)) == counts(done)


def test_what_runs_has_nothing_retryable_or_was_cancelled_is_left_as_it_is(store: Store) -> None:
    batch = finished(store)
    retry(store, batch)
    was = store.redis.hgetall(redis_keys.batch(batch))
    assert retry(store, batch).state == "running" and store.redis.hgetall(redis_keys.batch(batch)) == was
    assert finish(store, claim(store))
    over = store.batches.get("default", batch)
    assert retry(store, batch) == over
    cancelled = accept(store, 10, wanted(store, "other"))
    store.batches.cancel("default", cancelled)
    with pytest.raises(Conflict, match="cancelled"):
        retry(store, cancelled)


def test_a_batch_whose_grader_is_gone_is_not_retried_and_keeps_its_outcomes(store: Store) -> None:
    batch = finished(store)
    before = counts(store.batches.get("default", batch)), lines_of(store, batch)
    store.graders.delete("default", "exact")
    with pytest.raises(Conflict, match="no longer exists"):
        retry(store, batch)
    assert (counts(store.batches.get("default", batch)), lines_of(store, batch)) == before


def test_a_retried_batch_is_compared_with_the_batches_before_it_alone(store: Store) -> None:
    grader = wanted(store, "exact")
    batches = [accept(store, LINES, grader) for _ in range(2)]
    while lease := store.leases.claim():
        outcomes = outcomes_of(store, lease, score=float(lease.batch == batches[1]))
        outcomes[AWAY + 1 : AWAY + 2] = [away(lease.unit * CHUNK_LINES + AWAY + 1, "exact@1")]
        assert finish(store, lease, list(map(with_error, outcomes)))
    for batch in batches:
        store.freezer.freeze(batch)
    first, second = map(text, store.redis.lrange(redis_keys.rewards("default", "exact"), 0, -1))
    assert first.split(":")[1] == second.split(":")[1]  # as many scores
    for batch, before in zip(batches, (b"", first.encode()), strict=True):
        for _ in range(2):  # the first gives one score more
            retry(store, batch)
            assert store.redis.hget(redis_keys.batch(batch), "past:0") == before
            finish_all(store, with_error)
            store.freezer.freeze(batch)
    store.redis.lpop(redis_keys.rewards("default", "exact"))  # as ten later batches do
    retry(store, batches[0])
    assert store.redis.hget(redis_keys.batch(batches[0]), "past:0") == b""


def test_a_retried_batch_of_an_earlier_gradebox_is_found_by_its_scores(store: Store) -> None:
    batch = finished(store)
    rewards = redis_keys.rewards("default", "exact")
    (entry,) = map(text, store.redis.lrange(rewards, 0, -1))
    store.redis.delete(rewards)
    store.redis.rpush(rewards, "1:40:0.5:10.0", entry.removesuffix(f":{batch}"))
    retry(store, batch)
    assert store.redis.hget(redis_keys.batch(batch), "past:0") == b"1:40:0.5:10.0"
    finish_all(store, with_error)
    assert store.batches.get("default", batch).state == "finished"  # with what it is compared with


def test_a_retry_that_is_cancelled_leaves_the_outcomes_that_there_were(store: Store) -> None:
    batch = finished(store)
    before = counts(store.batches.get("default", batch)), lines_of(store, batch)
    retry(store, batch)
    lease = claim(store)
    store.batches.cancel("default", batch)
    assert (counts(store.batches.get("default", batch)), lines_of(store, batch)) == before
    store.freezer.freeze(batch)
    assert (counts(store.batches.get("default", batch)), lines_of(store, batch)) == before
    assert store.backlog.usage("default").waiting == Waiting(0, 0)

    retry(store, batch)  # a second retry, in which the lease of the first must have no effect
    again = claim(store)
    assert again.attempt == lease.attempt + 1 and again.tries == 1
    late = outcomes_of(store, lease, score=99.0)
    assert complete(store, lease, 0, tally(late)) == Completed.NOT
    assert finish(store, again)
    assert counts(store.batches.get("default", batch))[:4] == ("finished", LINES, LINES, {})


def test_a_lease_that_runs_out_in_a_retry_is_lent_again_with_the_earlier_outcomes(store: Store) -> None:
    batch = finished(store)
    retry(store, batch)
    first = claim(store)
    store.redis.zadd(redis_keys.LEASES, {str(first): 0})
    assert store.leases.beat([]).returned == 1
    second = claim(store)
    assert (second.attempt, second.tries, second.earlier) == (3, 2, 1)
    assert not finish(store, first)
    assert finish(store, second)
    assert len(lines_of(store, batch)) == LINES


def test_the_janitor_leaves_the_files_of_a_batch_that_runs_again(store: Store) -> None:
    batch = finished(store)
    retry(store, batch)
    files = store.spool.outcome_files(batch)
    store.redis.zadd(redis_keys.UNTIDY, {batch: 0})
    Janitor(store, None).look()
    assert sorted(store.spool.outcome_files(batch)) == sorted(files) == [(0, 1), (1, 1)]
    assert finish(store, claim(store))
    store.redis.zadd(redis_keys.UNTIDY, {batch: 0})
    Janitor(store, None).look()
    assert sorted(store.spool.outcome_files(batch)) == [(0, 2), (1, 1)]


def test_with_several_graders_only_the_one_with_errors_is_scored_again(store: Store) -> None:
    batch = finished(store, wanted(store, "a", 0.5), wanted(store, "b"))
    assert [(one["grader"], one["error"]["retryable"]) for one in errors(store, batch)] == [
        ("a@1", True),
        ("combined", True),
    ]
    assert retry(store, batch).done == 2 * LINES - 1
    lease = claim(store)
    assert lease.unit == 0 and store.leases.claim() is None
    assert finish(store, lease)
    assert not errors(store, batch)
    found = store.batches.get("default", batch)
    assert [one.scored for one in found.summary] == [LINES, LINES]
    assert (found.weighted, len(lines_of(store, batch))) == (True, 3 * LINES)


def test_a_retry_keeps_the_weights_of_a_batch_from_before_combined_outcomes(store: Store) -> None:
    batch = accept(store, LINES, wanted(store, "a", 0.5), wanted(store, "b"))
    store.redis.hdel(redis_keys.batch(batch), "weighted")
    finish_all(store, with_error)
    again = retry(store, batch)
    assert ([one.weight for one in again.graders], again.weighted) == ([0.5, 1.0], False)


def errors(store: Store, batch: str) -> list[dict[str, Any]]:
    return [found for line in lines_of(store, batch) if "error" in (found := msgspec.json.decode(line))]


def test_attempt_numbers_do_not_run_out(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond two bytes, a unit would count as not done, and its outcomes would be left out."""
    batch = finished(store)
    before = lines_of(store, batch)
    monkeypatch.setattr(Frozen, "floor", 2**16 - 1)
    with pytest.raises(Conflict, match="retried too often"):
        retry(store, batch)
    assert store.batches.get("default", batch).state == "finished"
    assert lines_of(store, batch) == before


def test_a_retry_has_the_terms_of_its_batch(store: Store) -> None:
    terms = AskTerms(Budget(2.5), "new")
    batch = accept(store, LINES, terms=terms)
    finish_all(store, with_error)
    retry(store, batch)
    assert plan_of(store, batch).terms == terms


def test_a_worker_that_freezes_late_does_not_undo_a_retry(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = unfrozen(store)
    rewards = store.batches.rewards

    def slow(ended: Batch) -> list[str]:
        monkeypatch.setattr(store.batches, "rewards", rewards)
        retry(store, batch)
        assert finish(store, claim(store))
        return rewards(ended)

    monkeypatch.setattr(store.batches, "rewards", slow)
    store.freezer.freeze(batch)

    done = store.batches.get("default", batch)
    assert counts(done) == ("finished", LINES, LINES, {}, [(LINES, LINES)])
    assert b'"error"' not in b"".join(lines_of(store, batch))
    store.freezer.freeze(batch)  # as the worker of the retry does
    assert store.redis.hexists(redis_keys.FROZEN, batch)
    assert counts(store.batches.get("default", batch)) == counts(done)


def test_a_table_that_is_written_late_does_not_undo_a_retry(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen_batch, "KEPT_TABLE_BYTES", 0)  # the table is a file, as that of a large batch
    batch = unfrozen(store)
    write = store.spool.write_table

    def slow(batch_id: str, table: bytes) -> str:
        monkeypatch.setattr(store.spool, "write_table", write)
        retry(store, batch)
        assert finish(store, claim(store))
        store.freezer.freeze(batch)
        return write(batch_id, table)

    monkeypatch.setattr(store.spool, "write_table", slow)
    store.freezer.freeze(batch)

    assert store.batches.get("default", batch).errors == {}
    assert store.batches.standing(batch)[1][0] == 2
    assert len(store.spool.tables(batch)) == 2  # of both rounds
    store.redis.zadd(redis_keys.UNTIDY, {batch: 0})
    assert Janitor(store, None).look()
    assert (0, 2) in store.spool.outcome_files(batch)
    assert len(store.spool.tables(batch)) == 1
    assert b'"error"' not in b"".join(lines_of(store, batch))


def test_a_batch_whose_outcomes_are_lost_is_not_retried(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_files, "SETTLED_S", 0.0)
    batch = finished(store)
    Path(store.spool._outcomes(batch, 1, 1)).unlink()
    with pytest.raises(OutcomesLost, match="threads 1000 to 1999"):
        retry(store, batch)
    assert store.batches.get("default", batch).state == "finished"


def test_keeping_the_earlier_outcomes_again_because_the_answer_was_lost_says_the_same(store: Store) -> None:
    batch = accept(store, LINES)
    finish_all(store, lambda one: away(one.index, one.grader))
    assert retry(store, batch).state == "running"
    first, last = claim(store), claim(store)
    assert [store.leases.keep_earlier(first) for _ in range(2)] == [False, False]
    assert [store.leases.keep_earlier(last) for _ in range(2)] == [True, True]
    assert not store.leases.keep_earlier(first)
    assert store.batches.get("default", batch).errors == {"model": LINES}


def test_a_request_that_comes_twice_is_one_retry(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = finished(store)
    request, other = (once("default", "key", name, b"retry", 60) for name in ("a", "b"))
    begun: list[int] = []
    plan = store.retries._wanted

    def begin(by: Once) -> Batch:
        return store.retries.begin("default", batch, lambda wanted, units: begun.append(units), by)

    def late(of: Batch) -> Any:
        monkeypatch.undo()
        begin(request)  # the whole retry happens while the other one has only looked
        finish_all(store, with_error)
        store.freezer.freeze(batch)
        return plan(of)

    monkeypatch.setattr(store.retries, "_wanted", late)
    assert begin(request).state == begin(request).state == "finished"
    assert begun == [1]
    with pytest.raises(KeyReused):
        begin(request._replace(fingerprint=b"another"))
    assert begin(other).state == "running"
    assert begun == [1, 1]


def test_of_two_retries_at_once_one_begins(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = finished(store)
    begun: list[int] = []
    plan = store.retries._wanted

    def late(of: Batch) -> Any:
        monkeypatch.undo()
        store.retries.begin("default", batch, lambda wanted, units: begun.append(units))
        return plan(of)

    monkeypatch.setattr(store.retries, "_wanted", late)
    assert store.retries.begin("default", batch, lambda wanted, units: begun.append(units)).state == "running"
    assert begun == [1]
    assert finish(store, claim(store))
    assert counts(store.batches.get("default", batch))[:4] == ("finished", LINES, LINES, {})
