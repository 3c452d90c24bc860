import statistics

import pytest

from gradebox.outcome import Outcome
from storage.tally import tally
from tests.storage.making import failed


def scored(*scores: float) -> list[Outcome]:
    return [Outcome(index, "g@1", score, 2.0) for index, score in enumerate(scores)]


def test_moments_are_those_of_the_scores_that_are() -> None:
    counted = tally([*scored(1.0, 0.0, 0.25), failed(3, "g@1")])
    assert (counted.count, counted.scored, counted.errors) == (4, 3, {"exception": 1})
    assert counted.mean == pytest.approx(statistics.mean([1, 0, 0.25]))
    assert counted.m2 / 3 == pytest.approx(statistics.pvariance([1, 0, 0.25]))
    assert (counted.minimum, counted.maximum, counted.run_ms) == (0.0, 1.0, 6.5)


def test_values_are_counted_to_three_digits() -> None:
    assert tally(scored(0.12345, 0.12349, -0.0, 0.0, 1234.5)).values == {0.123: 2, 0.0: 2, 1230.0: 1}


def test_nothing_scored_is_no_error() -> None:
    assert tally([failed(0, "g@1")]).scored == 0


def test_the_largest_floats_do_not_raise() -> None:
    assert tally(scored(1.7e308, -1.7e308, 1.7e308)).maximum == 1.7e308
