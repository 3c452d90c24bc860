import random

import pytest
from msgspec.structs import replace

from gradebox.outcome import Outcome, OutcomeError
from sandbox.environments import PYTHON
from storage import redis_keys
from storage.batch_plan import Wanted
from storage.connection import text
from storage.statistics.outcome_tally import tally
from storage.statistics.reward_warnings import Concern, Past, concerns
from storage.store import Store
from tests.storage.making import accept, claim, complete_again, failed, finish, outcomes_of, passed_over, proved, wanted


def kinds(*scores: float, errors: int = 0, past: list[Past] | None = None) -> list[str]:
    return [concern.kind for concern in found(*scores, errors=errors, past=past)]


def found(*scores: float, errors: int = 0, past: list[Past] | None = None) -> list[Concern]:
    outcomes = [Outcome(index, "g@2", score, 2.0) for index, score in enumerate(scores)]
    outcomes += [failed(index, "g@2") for index in range(errors)]
    return concerns("g@2", tally(outcomes), past or [])


def halves(number: int, share: float) -> list[float]:
    """Scores of 0 and 1 with this mean."""
    return [float(index < number * share) for index in range(number)]


def batches(*means: float, scored: int = 1000, version: int = 2) -> list[Past]:
    """Earlier batches of scores 0 and 1."""
    return [Past(version, scored, mean, (mean - mean * mean) ** 0.5) for mean in means]


def test_ten_equal_scores_are_warned_of_and_nine_are_not() -> None:
    assert kinds(*[0.5] * 10) == ["equal"]
    assert "all 10 scores are 0.5: a reward that never differs" in found(*[0.5] * 10)[0].message
    assert "all 1,000 scores" in found(*[0.5] * 1000)[0].message
    assert kinds(*[0.5] * 9) == []
    assert kinds(*[0.5] * 9, 0.4) == []


def test_mostly_errors_are_warned_of() -> None:
    (some,), (all_failed,) = found(0.0, 1.0, errors=3), found(errors=3)
    assert "3 of 5 completions have no score (3 exception): the scores that are left may be a" in some.message
    assert "3 of 3 completions have no score (3 exception): there is no score at all. Read" in all_failed.message
    assert kinds(0.0, 1.0, errors=2) == []


def test_threads_that_a_grader_does_not_apply_to_are_no_errors() -> None:
    passed = [passed_over(index, "g@2") for index in range(7)]
    outcomes = [Outcome(0, "g@2", 0.0, 2.0), Outcome(1, "g@2", 1.0, 2.0), failed(2, "g@2"), *passed]
    assert concerns("g@2", tally(outcomes)) == []
    (concern,) = concerns("g@2", tally([*outcomes, failed(3, "g@2"), failed(4, "g@2")]))
    assert "3 of 5 completions have no score (3 exception)" in concern.message


@pytest.mark.parametrize(
    ("apply", "passed", "is_warned"), [(5, 195, True), (1, 9, False), (0, 10, True), (20, 80, False)]
)
def test_a_mean_of_few_is_warned_of(apply: int, passed: int, is_warned: bool) -> None:
    outcomes = [Outcome(index, "g@2", index / 100, 2.0) for index in range(apply)]
    outcomes += [passed_over(apply + index, "g@2") for index in range(passed)]
    told = concerns("g@2", tally(outcomes))
    assert [concern.kind for concern in told] == ["few_apply"] * is_warned
    assert not told or f"applies to {apply} of {apply + passed} completions" in told[0].message


@pytest.mark.parametrize(
    ("version", "said"), [(2, "The grader is the same"), (1, "Version 1 scored the batch before, 2 this one")]
)
def test_a_mean_that_jumps_is_warned_of_with_both_numbers_and_versions(version: int, said: str) -> None:
    (concern,) = found(*halves(1000, 0.95), past=batches(0.5, 0.52, 0.48, version=version))
    assert concern.kind == "jump"
    assert "the mean is 0.95, and over the last 3 batches it was 0.5 (from 0.48 to 0.52)" in concern.message
    assert said in concern.message


def test_tiny_batches_and_short_histories_are_not_judged() -> None:
    assert kinds(*halves(29, 0.9), past=batches(0.1, 0.1, 0.1)) == []
    assert kinds(*halves(1000, 0.9), past=batches(0.1, 0.1)) == []


@pytest.mark.parametrize("batches_before", [3, 5, 10])
def test_a_reward_that_climbs_steadily_is_no_jump(batches_before: int) -> None:
    climb = [0.1 + 0.08 * step for step in range(batches_before + 1)]
    assert kinds(*halves(1000, climb[-1]), past=batches(*climb[:-1])) == []


def test_a_small_shift_of_a_large_batch_is_sure_but_does_not_matter() -> None:
    assert kinds(*halves(100_000, 0.53), past=batches(0.5, 0.5, 0.5, scored=100_000)) == []


def test_chance_alone_hardly_ever_warns() -> None:
    random.seed(7)

    def draw() -> list[float]:
        return [random.gauss(0.3, 0.2) for _ in range(30)]

    alarms = 0
    for _ in range(1000):
        earlier = [tally([Outcome(0, "g@2", score, 1.0) for score in draw()]) for _ in range(3)]
        past = [Past(2, one.scored, one.mean, (one.m2 / one.scored) ** 0.5) for one in earlier]
        alarms += "jump" in kinds(*draw(), past=past)
    assert alarms <= 1


def test_a_constant_reward_that_changes_is_a_jump() -> None:
    past = batches(0.0, 0.0, 0.0)
    assert kinds(*[1.0] * 30, past=past) == ["equal", "jump"]
    assert kinds(*[0.0] * 30, past=past) == ["equal"]


def test_scores_near_the_largest_float_are_survived() -> None:
    assert kinds(*[1.7e308, -1.7e308] * 20, past=batches(0.5, 0.5, 0.5)) == []
    past = [Past(2, 100, float("inf"), float("inf"))] * 3
    assert kinds(*halves(100, 0.5), past=past) == []


def test_finished_batches_are_remembered_and_the_summary_keeps_what_they_were(store: Store) -> None:
    exact = wanted(store, "exact")
    made = []
    for shift in (0.0, 0.0, 0.1, 50.0):
        made.append(accept(store, 40, exact))
        lease = claim(store)
        scores = [float(number % 2) + shift for number in range(40)]
        outcomes = outcomes_of(store, lease)
        finish(store, lease, [Outcome(one.index, one.grader, scores[one.index], 1.0) for one in outcomes])
        told = store.batches.get("default", made[-1]).summary
        store.freezer.freeze(made[-1])
        assert store.batches.get("default", made[-1]).summary == told
    told = [store.batches.get("default", batch).summary[0] for batch in made]
    assert [summary.warning_kinds for summary in told] == [[], [], [], ["jump"]]
    assert "over the last 3 batches it was 0.5333" in told[-1].warnings[0]


def test_graders_that_were_checked_in_another_python_are_warned_of_until_they_are_checked_again(store: Store) -> None:
    older = replace(proved(), python="3.2")
    store.graders.create("default", "exact", "exact", "", older)
    version = store.graders.version("default", "exact")
    batch = accept(store, 1, Wanted("exact", version, None))
    finish(store, claim(store))
    store.freezer.freeze(batch)
    (summary,) = store.batches.get("default", batch).summary
    assert summary.warning_kinds == ["python"]
    assert f"exact@1 was checked in Python 3.2, and the service has {PYTHON} now" in summary.warnings[0]
    assert older.is_version(version)
    assert not replace(older, python=PYTHON).is_version(version)


def test_ten_batches_are_remembered_and_small_ones_are_not(store: Store) -> None:
    exact = wanted(store, "exact")
    for lines in (29, *[30] * 12):
        batch = accept(store, lines, exact)
        finish(store, claim(store))
        store.freezer.freeze(batch)
    entries = store.redis.lrange(redis_keys.rewards("default", "exact"), 0, -1)
    assert len(entries) == 10
    assert all(text(entry).startswith("1:30:14.5:") for entry in entries)


def test_a_batch_that_is_finished_twice_is_remembered_once(store: Store) -> None:
    batch = accept(store, 30)
    lease = claim(store)
    assert finish(store, lease)
    assert complete_again(store, lease)
    for _ in range(2):
        store.freezer.freeze(batch)
    assert store.redis.llen(redis_keys.rewards("default", "exact")) == 1


def test_a_grader_that_was_deleted_leaves_no_memory(store: Store) -> None:
    exact = wanted(store, "exact")
    first, second = accept(store, 30, exact), accept(store, 30, exact)
    finish(store, claim(store))
    store.freezer.freeze(first)
    assert store.redis.exists(redis_keys.rewards("default", "exact"))
    store.graders.delete("default", "exact")
    finish(store, claim(store))
    store.freezer.freeze(second)
    assert not store.redis.exists(redis_keys.rewards("default", "exact"))


def test_errors_of_the_service_are_not_blamed_on_the_grader() -> None:
    error = OutcomeError("infrastructure", "the batch was cancelled", retryable=True)
    (concern,) = concerns("g@1", tally([Outcome(0, "g@1", None, 0.0, error=error)]))
    assert concern.message.endswith("Read the error messages of some outcomes, and score these again")
