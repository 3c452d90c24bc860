import statistics

import pytest

from gradebox.outcome import Outcome
from gradebox.schemas import Summary
from storage.summary import summarise
from storage.tally import tally
from tests.storage.making import failed


def summary_of(*scores: float, errors: int = 0) -> Summary:
    outcomes = [Outcome(index, "g@1", score, 2.0) for index, score in enumerate(scores)]
    outcomes += [failed(index, "g@1") for index in range(errors)]
    return summarise("g@1", 2.0, tally(outcomes))


def test_quantiles_and_histogram_of_a_hundred_scores() -> None:
    scores = [number / 100 for number in range(1, 101)]
    summary = summary_of(*scores)
    assert summary.mean == pytest.approx(0.505)
    assert summary.deviation == pytest.approx(statistics.pstdev(scores))
    assert summary.quantiles == {"p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}
    assert (summary.histogram[0].low, summary.histogram[-1].high) == (0.01, 1.0)
    assert sum(part.count for part in summary.histogram) == 100
    assert len(summary.histogram) == 10


def test_half_is_half() -> None:
    assert summary_of(0.0, 0.5, 1.0).quantiles["p50"] == 0.5


def test_nothing_done_yet_has_no_numbers() -> None:
    summary = summary_of()
    assert (summary.count, summary.mean, summary.minimum, summary.run_ms_mean) == (0, None, None, None)
    assert summary.quantiles == {}
    assert summary.warnings == []


def test_scores_near_the_largest_float_still_make_json() -> None:
    summary = summary_of(1.7e308, -1.7e308, 1.7e308)
    assert (summary.mean, summary.deviation) == (None, None) or summary.deviation is None
    assert sum(part.count for part in summary.histogram) == 3
    assert "Infinity" not in summary.model_dump_json()
    assert Summary.model_validate_json(summary.model_dump_json()) == summary
