import statistics

import pytest

from gradebox.outcome import Outcome
from gradebox.schemas import Summary
from storage.statistics import summary as summaries
from storage.statistics.outcome_tally import Tally, tally
from storage.statistics.summary import BINS, bin_of, inner_edges, summarise, weighted_mean
from tests.storage.making import failed


def summary_of(*scores: float, errors: int = 0) -> Summary:
    outcomes = [Outcome(index, "g@1", score, 2.0) for index, score in enumerate(scores)]
    outcomes += [failed(index, "g@1") for index in range(errors)]
    return summarise("g@1", 2.0, tally(outcomes))


@pytest.mark.parametrize(
    ("low", "high", "steps"),
    [(0, 1, 10), (-1, 0, 10), (1, 10, 90), (-2, 2, 40), (1, 5, 40), (0, 0.7, 7), (-5, 5, 20), (0, 3, 30), (0, 100, 10)],
)
def test_a_score_is_counted_in_the_bin_whose_bounds_hold_it(low: float, high: float, steps: int) -> None:
    for score in (round(low + (high - low) * step / steps, 6) for step in range(steps + 1)):
        found = summary_of(low, *[score] * 3, high).histogram
        number = bin_of(score, low, high)
        assert found[number].count >= 3
        assert found[number].low <= score
        assert score < found[number].high or (number == BINS - 1 and score == high)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 0), (-2, 2), (1, 10), (-0.5, 0.5), (0, 0.7)])
def test_edges_of_bins_are_as_decimals_are_read(low: float, high: float) -> None:
    assert [*inner_edges(low, high)] == [round(low + (high - low) * step / 10, 9) for step in range(1, 10)]


def test_a_summary_that_cannot_be_made_is_none_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    impossible = Tally(count=1, scored=1)
    assert summaries.summary_of("g@1", 1.0, impossible) is None
    assert "the summary of g@1 could not be made" in caplog.text


def test_values_near_the_largest_float_are_json() -> None:
    outcomes = [Outcome(index, "g@1", 0.5, 2.0, values={"a": value}) for index, value in enumerate((1.7e308, -1.7e308))]
    summary = summarise("g@1", 1.0, tally(outcomes))
    assert Summary.model_validate_json(summary.model_dump_json()) == summary


def test_a_warning_where_threads_have_no_completion() -> None:
    outcomes = [Outcome(0, "g@1", 1.0, 2.0), Outcome(1, "g@1", 0.0, 2.0, no_completion=True)]
    summary = summarise("g@1", 1.0, tally(outcomes))
    assert summary.warning_kinds == ["no_completion"]
    assert summary.warnings[0].startswith("1 of 2 threads do not end with a turn of the assistant")
    assert summarise("g@1", 1.0, tally(outcomes[:1])).warnings == []


def test_the_interval_of_the_mean_is_normal() -> None:
    scores = [0.0, 1.0, 1.0, 0.25]
    found = summary_of(*scores, errors=3)
    half = statistics.NormalDist().inv_cdf(0.975) * statistics.stdev(scores) / 2
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((0.5625 - half, 0.5625 + half), rel=0, abs=1e-12)
    assert (found.interval.method, found.passed, found.pass_rate) == ("normal", 2, 0.5)
    for few in ([], [0.5], [0.5, 0.5]):
        assert summary_of(*few).interval is None
    assert (summary_of().passed, summary_of().pass_rate) == (0, None)


def test_the_weighted_mean_is_rounded_once() -> None:
    parts = [summarise(f"g{number}@1", 0.1, tally([Outcome(0, f"g{number}@1", 1.0, 1.0)])) for number in range(10)]
    assert weighted_mean(parts) == 1.0
    assert weighted_mean([*parts, summarise("g@1", 0.1, tally([]))]) is None
    assert weighted_mean([]) is None
