import math
import statistics
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gradebox.outcome import Outcome
from gradebox.schemas import Summary
from storage import summary as summaries
from storage.summary import summarise
from storage.tally import Tally, tally
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


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(FINITE, min_size=1, max_size=40))
@example([0.0, 5e-324])
@example([5e-324, 1e-323, 1.5e-323])
@example([sys.float_info.max, math.nextafter(sys.float_info.max, 0)])
@example([-sys.float_info.max, sys.float_info.max, 0.0])
@example([-0.0, 0.0])
def test_every_finite_score_is_summarised(scores: list[float]) -> None:
    summary = summary_of(*scores)
    assert (summary.minimum, summary.maximum) == (min(scores), max(scores))
    assert sum(part.count for part in summary.histogram) == len(scores)
    edges = [summary.histogram[0].low, *(part.high for part in summary.histogram)]
    assert edges == sorted(edges)
    assert all(min(scores) <= value <= max(scores) for value in [*edges, *summary.quantiles.values()])
    assert Summary.model_validate_json(summary.model_dump_json()) == summary


def test_a_summary_that_cannot_be_made_is_none_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    impossible = Tally(count=1, scored=1)
    assert summaries.summary_of("g@1", 1.0, impossible) is None
    assert "the summary of g@1 could not be made" in caplog.text
