"""Tests that statistics kept by unit and merged equal a plain computation over all outcomes."""

import math
import random
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import accumulate, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from gradebox.outcome import ErrorKind, Outcome, OutcomeError
from gradebox.schemas import Summary
from storage import redis_keys
from storage.statistics import unit_tallies
from storage.statistics.outcome_tally import MOST_VALUES, merged, pack, tally
from storage.statistics.summary import QUANTILES, summarise
from storage.statistics.unit_tallies import MOST, Tallies
from storage.store import Store
from tests.storage.making import accept, claim, finish, outcomes_of

KINDS: tuple[ErrorKind, ...] = ("exception", "timeout", "memory")
Results = list[float | ErrorKind]
FINITE = st.floats(allow_nan=False, allow_infinity=False)
RESULTS = st.lists(FINITE | st.sampled_from([0.0, 1.0]) | st.sampled_from(KINDS), max_size=30)
LARGE = sys.float_info.max


def outcome(result: float | ErrorKind) -> Outcome:
    if isinstance(result, str):
        return Outcome(0, "g@1", None, 0.25, error=OutcomeError(result, "boom"))
    return Outcome(0, "g@1", result, 0.25)


def close(found: float | None, expected: Fraction, scale: float) -> bool:
    """Whether `found` is the expected number, up to a few roundings at this scale. None is right if sums overflow."""
    if found is None:
        return abs(scale) > 1e150
    return abs(Fraction(found) - expected) <= Fraction(1e-9) * (abs(expected) + Fraction(scale)) + Fraction(1e-300)


def check(summary: Summary, results: Results) -> None:
    """Compares a summary with a plain computation over all outcomes."""
    scores = sorted(one for one in results if not isinstance(one, str))
    assert (summary.count, summary.scored) == (len(results), len(scores))
    assert summary.errors == Counter(one for one in results if isinstance(one, str))
    assert summary.run_ms_mean == (0.25 if results else None)
    kinds = ["equal"] * (len(scores) >= 10 and scores[0] == scores[-1])
    assert summary.warning_kinds == kinds + ["errors"] * (2 * len(scores) < len(results))
    assert Summary.model_validate_json(summary.model_dump_json()) == summary
    if not scores:
        assert (summary.mean, summary.deviation, summary.minimum, summary.histogram) == (None, None, None, [])
        assert summary.quantiles == {}
        return
    low, high, scale = scores[0], scores[-1], max(map(abs, scores))
    assert (summary.minimum, summary.maximum) == (low, high)
    mean = sum(map(Fraction, scores), Fraction()) / len(scores)
    assert close(summary.mean, mean, scale)
    if scale < 1e150 and summary.deviation is not None:  # squares neither overflow nor underflow
        variance = sum((Fraction(score) - mean) ** 2 for score in scores) / len(scores)
        assert abs(summary.deviation - math.sqrt(variance)) <= 1e-7 * scale + 1e-150
    shares = {"p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}
    for name, share in shares.items():
        # the smallest score that at least this share of the scores does not exceed
        expected = next(score for number, score in enumerate(scores, 1) if number >= share * len(scores))
        assert summary.quantiles[name] == expected
    assert len(summary.histogram) == (1 if low == high else 10)
    assert all(one.low <= one.high == next_one.low for one, next_one in pairwise(summary.histogram))
    # Edges may be equal if the extremes are the smallest floats: the bin above them counts the score.
    counts = [sum(one.low <= score < one.high for score in scores) for one in summary.histogram]
    counts[-1] += scores.count(high)
    assert [one.count for one in summary.histogram] == counts
    assert (summary.histogram[0].low, summary.histogram[-1].high) == (low, high)


@given(st.lists(RESULTS, max_size=12), st.integers(2, 5))
@example([[0.0, 5e-324], [5e-324], [1e-323]], 2)
@example([[5e-324, 1e-323, 1.5e-323]], 2)
@example([[LARGE, -LARGE], [LARGE], [0.0], [-LARGE]], 2)
@example([[LARGE, math.nextafter(LARGE, 0)]], 2)
@example([[8.9e307, 8.9e307, -8.9e307, -8.9e307, 1.7e308, 1.7e308]], 2)  # the mean overflows
@example([[0.1] * 20, [0.1] * 20], 2)
@example([[-0.0], [0.0], [-1e-320]], 2)
@example([[-3.5e8, 1e-9], [], ["timeout", "memory"], ["timeout"]], 3)
def test_what_is_merged_is_what_a_plain_computation_gives(units: list[Results], most: int) -> None:
    kept: list[bytes] = []
    for unit in units:
        kept.append(pack(tally([outcome(one) for one in unit])))
        if len(kept) == most:
            kept = [pack(unit_tallies.read(kept))]
    check(summarise("g@1", 1.0, unit_tallies.read(kept)), [one for unit in units for one in unit])


SPREADS: dict[str, Callable[[random.Random], float]] = {
    "even": lambda chance: chance.random(),
    "outliers": lambda chance: chance.gauss(0, 1) * 10 ** (300 * (chance.random() < 1e-3)),
    "twelve decades": lambda chance: chance.random() * 10 ** chance.randrange(12),
    "mostly one": lambda chance: 1.0 if chance.random() < 0.4 else 1000 + chance.random(),
}


@pytest.mark.parametrize("spread", SPREADS)
def test_quantiles_of_very_many_different_scores_are_off_by_few_ranks(spread: str) -> None:
    chance = random.Random(7)
    units = [[SPREADS[spread](chance) for _ in range(1000)] for _ in range(100)]
    kept: list[bytes] = []
    for unit in units:
        kept.append(pack(tally(list(map(outcome, unit)))))
        if len(kept) == MOST:
            kept = [pack(unit_tallies.read(kept))]
    whole = unit_tallies.read(kept)
    scores = sorted(score for unit in units for score in unit)
    assert len(whole.values) <= MOST_VALUES
    assert set(whole.values) <= set(scores)
    assert sum(whole.values.values()) == whole.scored == len(scores)
    found = summarise("g@1", 1.0, whole)
    for name, share in QUANTILES.items():
        value, rank = found.quantiles[name], share * len(scores)
        first, last = bisect_left(scores, value) + 1, bisect_right(scores, value)
        assert first - 0.002 * len(scores) <= rank <= last + 0.002 * len(scores)
    edges = [part.high for part in found.histogram[:-1]]
    counted = accumulate(part.count for part in found.histogram[:-1])
    for edge, below in zip(edges, counted, strict=True):
        assert abs(below - bisect_left(scores, edge)) <= 0.002 * len(scores)


def test_five_thousand_different_scores_are_exact() -> None:
    scores = [1000 + number / 1000 for number in range(MOST_VALUES)]
    units = [[*map(outcome, scores[start::7])] for start in range(7)]
    check(summarise("g@1", 1.0, merged([tally(unit) for unit in units])), [*scores])


def scores_of(store: Store, batch: str, units: int) -> list[float]:
    """Scores and completes so many units of a batch. Returns all scores in the order of their threads."""
    chance = random.Random(units)
    found: dict[int, float] = {}
    for _ in range(units):
        lease = claim(store)
        made = [Outcome(one.index, one.grader, round(chance.gauss(0, 1), 2), 0.25) for one in outcomes_of(store, lease)]
        finish(store, lease, made)
        found |= {one.index: one.score for one in made if one.score is not None}
    return [found[index] for index in sorted(found)]


@pytest.mark.parametrize("units", [1, MOST - 1, MOST, MOST + 1, 20])
def test_a_batch_under_way_has_the_statistics_of_what_is_done(store: Store, redis: Redis, units: int) -> None:
    batch = accept(store, 21_000)
    scores = scores_of(store, batch, units)
    check(store.batches.get("default", batch).summary[0], [*scores])
    assert redis.llen(redis_keys.tallies(batch, 0)) <= MOST


def test_merging_at_once_counts_everything_once(store: Store, redis: Redis) -> None:
    batch = accept(store, 21_000)
    before = scores_of(store, batch, 7)
    with ThreadPoolExecutor(9) as pool:
        merges = [pool.submit(Tallies(redis).merge, batch, 0) for _ in range(8)]
        more = scores_of(store, batch, 9)
        for one in merges:
            one.result()
    check(store.batches.get("default", batch).summary[0], [*before, *more])


def test_a_batch_that_ends_meanwhile_is_left_alone(store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = accept(store, 9000)
    scores_of(store, batch, 5)
    merging = Tallies(redis)
    merge = merging._merge

    def late(args: list[str]) -> object:
        store.batches.cancel("default", batch)
        store.freezer.freeze(batch)
        return merge(args=args)

    monkeypatch.setattr(merging, "_merge", late)
    merging.merge(batch, 0)
    assert redis.keys(f"gradebox:batch:{batch}*") == []


def test_units_count_also_where_their_statistics_cannot_be_merged(
    store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: object) -> None:
        raise RedisConnectionError("away")

    batch = accept(store, 21_000)
    with monkeypatch.context() as patched:
        patched.setattr(Tallies, "merge", away)
        scores = scores_of(store, batch, MOST + 1)
    assert "could not be merged" in caplog.text
    assert redis.llen(redis_keys.tallies(batch, 0)) == MOST + 1
    scores += scores_of(store, batch, MOST - 1)
    assert redis.llen(redis_keys.tallies(batch, 0)) == 1
    check(store.batches.get("default", batch).summary[0], [*scores])
