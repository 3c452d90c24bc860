import time

import pytest
from redis import Redis

from storage import redis_keys
from storage.connection import text
from storage.queue.backlog import Waiting
from storage.queue.leases import Completed, Leases, UnitPart, UnitStanding
from storage.statistics.outcome_tally import tally
from storage.store import Store
from tests.storage.making import (
    accept,
    claim,
    complete,
    complete_again,
    finish,
    finish_all,
    outcomes_of,
    plan_of,
    wanted,
)
from tests.waiting import eventually


def test_projects_take_turns_and_within_each_its_batches(store: Store) -> None:
    exact = wanted(store, "exact")
    big = [accept(store, 20_000, exact, project="big") for _ in range(3)]
    assert [claim(store).batch for _ in range(4)] == [*big, big[0]]

    small = accept(store, 2000, exact, project="small")

    assert [claim(store).batch for _ in range(6)] == [big[1], small, big[2], small, big[0], big[1]]


def test_a_batch_to_go_on_with_precedes_the_turns_while_it_has_units(store: Store, redis: Redis) -> None:
    exact = wanted(store, "exact")
    first, other = accept(store, 4000, exact), accept(store, 2000, exact, project="other")
    assert [claim(store).batch, claim(store).batch] == [first, other]
    taken = [store.leases.claim(going_on=first) for _ in range(3)]
    assert [lease and lease.unit for lease in taken] == [1, 2, 3]
    assert redis.lrange(redis_keys.turns(""), 0, -1) == [b"other"]
    assert [lease and lease.batch for lease in (store.leases.claim(going_on=first), store.leases.claim())] == [
        other,
        None,
    ]


def test_a_unit_that_comes_back_waits_for_its_projects_turn(store: Store) -> None:
    exact = wanted(store, "exact")
    first, second = accept(store, 1000, exact, project="a"), accept(store, 3000, exact, project="b")
    lease = claim(store)
    assert lease.batch == first
    assert claim(store).batch == second
    store.leases.release(lease)
    store.leases.release(claim(store))
    assert sorted(claim(store).batch for _ in range(3)) == sorted([first, second, second])
    assert store.leases.claim() is None


def test_units_go_grader_by_grader(store: Store) -> None:
    batch = accept(store, 1500, wanted(store, "a"), wanted(store, "b"))
    plan = plan_of(store, batch)
    taken = [plan.unit(claim(store).unit) for _ in range(4)]
    units = [(plan.scorers[number].label, chunk.first_index) for number, chunk in taken]
    assert units == [("a@1", 0), ("a@1", 1000), ("b@1", 0), ("b@1", 1000)]


def test_a_unit_that_takes_long_is_seen_to_move(store: Store) -> None:
    batch = accept(store, 1500)
    first, second = claim(store), claim(store)
    assert store.leases.advance(first, 300)
    assert store.leases.advance(second, 20)
    assert store.leases.advance(first, 600)
    found = store.batches.get("default", batch)
    assert (found.done, found.underway) == (0, 620)
    assert store.batches.newest("default", 1)[0].underway == 620
    assert finish(store, first)
    store.leases.release(second)
    found = store.batches.get("default", batch)
    assert (found.done, found.underway) == (1000, 0)


def test_nobody_goes_on_with_a_unit_that_is_lost_or_not_wanted(store: Store) -> None:
    batch = accept(store, 1500)
    lost, unwanted = claim(store), claim(store)
    store.leases.release(lost)
    assert not store.leases.advance(lost, 1)
    assert store.leases.advance(unwanted, 1)
    store.batches.cancel("default", batch)
    assert store.leases.advance(unwanted, 2) == UnitStanding.CANCELLED
    assert store.leases.advance(lost, 2) == UnitStanding.OVER
    assert store.batches.get("default", batch).underway == 0


def test_giving_back_again_because_the_answer_was_lost_takes_nobodys_lease(store: Store) -> None:
    """Otherwise two workers would hold the same attempt of a unit, and both would count."""
    batch = accept(store, 1)
    first = claim(store)
    store.leases.release(first, tried=False)
    second = claim(store)
    store.leases.release(first, tried=False)
    assert store.leases.claim() is None
    assert finish(store, second)
    assert store.batches.get("default", batch).done == 1


def test_an_attempt_goes_on_from_what_the_one_before_kept(store: Store) -> None:
    batch = accept(store, 10)
    first = claim(store)
    assert store.leases.release(first, tried=False, outcomes=4)
    assert store.leases.release(first, tried=False, outcomes=4)  # repeated after a lost reply
    assert store.batches.get("default", batch).underway == 4
    second = claim(store)
    assert (second.attempt, second.tries, second.part) == (2, 1, UnitPart(1, 4))
    store.leases.release(second)
    third = claim(store)
    assert (third.tries, third.part) == (2, UnitPart(1, 4))
    assert store.batches.get("default", batch).underway == 4
    assert not store.leases.release(second, tried=False, outcomes=7)  # the lease is over
    assert store.leases.release(third, tried=False, outcomes=8)
    assert claim(store).part == UnitPart(3, 8)


def test_a_worker_is_told_what_waits(store: Store) -> None:
    exact = wanted(store, "exact")
    accept(store, 3000, exact, project="a")
    first, second = claim(store), claim(store)
    assert store.leases.advance(first, 1) == UnitStanding.ALONE
    accept(store, 2000, exact, project="b")
    assert store.leases.advance(first, 1) == UnitStanding.UNSERVED_PROJECT
    claim(store)
    other = claim(store)
    assert other.batch != first.batch
    assert store.leases.advance(first, 1) == UnitStanding.SHARED  # three units of a and one of b are lent
    assert store.leases.advance(other, 1) == UnitStanding.ALONE
    accept(store, 1000, exact, project="b")
    assert store.leases.advance(other, 1) == UnitStanding.UNSERVED_BATCH
    assert store.leases.advance(first, 1) == UnitStanding.SHARED  # it is a batch of another project
    store.leases.release(second)
    store.leases.release(second)
    assert store.leases.advance(second, 1) == UnitStanding.OVER


def test_the_unserved_are_served_before_their_turns(store: Store) -> None:
    exact = wanted(store, "exact")
    a = accept(store, 5000, exact, project="a")
    assert claim(store).batch == a
    assert store.leases.claim("batches") is None
    b = accept(store, 2000, exact, project="b")
    c = accept(store, 2000, exact, project="c")
    found = [store.leases.claim("projects") for _ in range(3)]
    assert [lease and lease.batch for lease in found] == [b, c, None]
    assert [claim(store).batch for _ in range(4)] == [a, b, c, a]


def test_unserved_batches_follow_unserved_projects(store: Store) -> None:
    exact = wanted(store, "exact")
    a = accept(store, 5000, exact, project="a")
    claim(store)
    later = [accept(store, 1000, exact, project="a") for _ in range(2)]
    assert store.leases.claim("projects") is None
    b = accept(store, 1000, exact, project="b")
    found = [store.leases.claim("batches") for _ in range(4)]
    assert [lease and lease.batch for lease in found] == [b, *later, None]
    assert [claim(store).batch for _ in range(2)] == [a, a]  # the others have one unit each


def test_unserved_batches_wait_while_a_project_with_fewer_leases_does(store: Store) -> None:
    exact = wanted(store, "exact")
    for _ in range(4):
        accept(store, 1000, exact, project="a")
    first, _ = claim(store), store.leases.claim("batches")
    accept(store, 3000, exact, project="b")
    store.leases.claim("projects")
    assert store.leases.advance(first, 1) == UnitStanding.SHARED
    assert store.leases.claim("batches") is None


def test_a_lease_that_ran_out_goes_to_another_and_counts_once(store: Store, redis: Redis) -> None:
    hasty = Leases(redis, lease_ms=1)
    batch = accept(store, 10)
    lost = hasty.claim()
    assert lost is not None
    time.sleep(0.01)
    assert store.leases.beat([]).returned == 1
    again = claim(store)
    assert (again.unit, again.attempt) == (lost.unit, 2)
    assert finish(store, again)
    assert not finish(store, lost)
    assert store.batches.get("default", batch).done == 10
    assert store.batches.standing(batch)[1] == [2]


def test_a_heartbeat_keeps_the_lease(store: Store, redis: Redis) -> None:
    hasty = Leases(redis, lease_ms=150)
    accept(store, 10)
    lease = hasty.claim()
    assert lease is not None
    for _ in range(4):
        time.sleep(0.06)
        assert hasty.beat([lease]).returned == 0
    time.sleep(0.1)
    assert hasty.beat([]).returned == 0  # another worker
    eventually(lambda: hasty.beat([]).returned == 1, 5)


def test_after_an_outage_workers_that_live_keep_their_leases(store: Store, redis: Redis) -> None:
    hasty = Leases(redis, lease_ms=400)
    accept(store, 3000)
    mine, of_other, of_dead = (hasty.claim() for _ in range(3))
    assert mine and of_other and of_dead
    for _ in range(2):  # the first time, there was no heartbeat before
        time.sleep(0.5)
        assert hasty.beat([mine]).returned == 0
    assert store.leases.advance(of_other, 5) == UnitStanding.ALONE
    assert hasty.beat([of_other]).returned == 0
    time.sleep(0.3)
    assert hasty.beat([mine, of_other]).returned == 0
    time.sleep(0.2)
    assert hasty.beat([mine, of_other]).returned == 1
    assert claim(store).unit == of_dead.unit


def test_a_late_worker_may_finish_while_nobody_else_has_the_unit(store: Store, redis: Redis) -> None:
    hasty = Leases(redis, lease_ms=1)
    accept(store, 10)
    lease = hasty.claim()
    assert lease is not None
    time.sleep(0.01)
    assert finish(store, lease)
    assert store.leases.beat([]).returned == 0


def test_completing_again_because_the_answer_was_lost_counts_once(store: Store) -> None:
    batch = accept(store, 1500)
    lease = claim(store)
    assert finish(store, lease)
    assert complete_again(store, lease) == Completed.COUNTED
    assert store.batches.get("default", batch).done == 1000


def test_a_question_repeated_after_the_end_says_no_more_than_that_it_is_over(store: Store) -> None:
    """With NOT, the worker would remove its file, whose outcomes may count."""
    batch = accept(store, 10)
    lease = claim(store)
    assert finish(store, lease)
    store.freezer.freeze(batch)
    assert complete_again(store, lease) == Completed.OVER


def test_of_a_cancelled_batch_only_what_was_under_way_still_counts(store: Store, redis: Redis) -> None:
    batch = accept(store, 2500)
    lease, lost = claim(store), claim(store)
    assert finish(store, claim(store))
    store.leases.release(lost)
    assert store.batches.cancel("default", batch).done == 500
    assert store.leases.claim() is None
    assert not finish(store, lost)
    assert finish(store, lease)
    assert complete_again(store, lease) == Completed.COUNTED
    found = store.batches.get("default", batch)
    assert (found.state, found.done, found.summary[0].count) == ("cancelled", 1500, 1500)
    assert store.backlog.usage("default").waiting == Waiting(0, 0)
    assert int(redis.hget(redis_keys.STORED, "default") or 0) > 1500


@pytest.mark.parametrize("end", ["done", "frozen", "tidied"])
def test_what_was_under_way_counts_no_more_when_it_is_too_late(store: Store, redis: Redis, end: str) -> None:
    batch = accept(store, 1500)
    lease = claim(store)
    if end == "done":
        assert finish(store, claim(store))
    assert store.batches.cancel("default", batch).state == "cancelled"
    if end == "frozen":
        store.freezer.freeze(batch)
    elif end == "tidied":
        redis.zadd(redis_keys.UNTIDY, {batch: time.time() - 61})
    counts = finish(store, lease)
    found = store.batches.get("default", batch)
    assert (found.state, found.done) == ("cancelled", 1500 if end == "done" else 0)
    assert counts == (end == "done")


def test_a_deleted_batch_leaves_nothing_in_redis(store: Store, redis: Redis) -> None:
    before = set(redis.keys())
    batch = accept(store, 2500, wanted(store, "a"))
    assert finish(store, claim(store))
    lease = claim(store)
    outcomes = outcomes_of(store, lease)
    late = claim(store)
    store.leases.release(late)
    later = claim(store)
    store.batches.delete("default", batch)
    assert not complete(store, lease, 0, tally(outcomes))
    store.leases.release(later)
    store.orphan_files.swept(batch)
    assert {text(key) for key in set(redis.keys()) - before} == {
        redis_keys.BEATEN,
        redis_keys.graders("default"),
        redis_keys.grader("default", "a"),
        redis_keys.versions("default", "a"),
        redis_keys.numbers("default"),
        redis_keys.version_bytes("default"),
        redis_keys.ENDED,  # empty
    }


def test_state_stays_small_however_large_the_batch(store: Store, redis: Redis) -> None:
    batch = accept(store, 100_000, wanted(store, "a"), wanted(store, "b"))
    finish_all(store)
    used = sum(redis.memory_usage(key) or 0 for key in redis.keys(f"gradebox:batch:{batch}*"))
    assert store.batches.get("default", batch).done == 200_000
    assert used < 400_000


def test_a_clock_that_is_set_back_does_not_prolong_a_lease(store: Store) -> None:
    accept(store, 10)
    lease = claim(store)
    store.redis.zincrby(redis_keys.LEASES, 600_000, str(lease))  # as if the clock was ten minutes ahead then
    store.leases.beat([])
    left = float(store.redis.zscore(redis_keys.LEASES, str(lease)) or 0) / 1000 - time.time()
    assert 5 < left < 20
