import numpy as np
import pytest

from api.numbers.jobs import MOST_SCORES
from tests.api.numbers.computed import bounds, interval


def plain(scores: np.ndarray, resamples: int = 1000) -> tuple[float, float]:
    """The interval as unitxt computes it."""
    from scipy.stats import bootstrap

    found = bootstrap((scores,), np.mean, n_resamples=resamples, rng=np.random.default_rng(42)).confidence_interval
    return float(found.low), float(found.high)


@pytest.mark.parametrize("count", [2, 3, 10, 99, 100, 101, 1500])
def test_bounds_are_those_of_scipy(count: int) -> None:
    scores = np.random.default_rng(count).random(count)
    assert bounds(scores, 1000) == pytest.approx(plain(scores), rel=0, abs=1e-9)


def test_bounds_of_scores_of_zero_and_one() -> None:
    scores = np.array([1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    assert bounds(scores, 1000) == pytest.approx(plain(scores), rel=0, abs=1e-9)
    assert bounds(scores, 200) == pytest.approx(plain(scores, 200), rel=0, abs=1e-9)


def test_the_order_of_scores_counts() -> None:
    scores = np.random.default_rng(3).random(50)
    assert bounds(scores, 1000) != bounds(np.sort(scores), 1000)


@pytest.mark.parametrize("scores", [[], [0.5], [0.5, 0.5, 0.5], [0.1] * 3])
def test_one_score_and_equal_ones_have_no_interval(scores: list[float]) -> None:
    assert bounds(np.array(scores), 1000) is None
    assert interval(np.array(scores), 1000) is None
    assert interval(np.array(scores), 0) is None


def test_bounds_that_overflow_are_none() -> None:
    assert bounds(np.array([1.7e308, -1.7e308, 1.7e308]), 1000) is None


def test_of_many_scores_and_without_resamples_an_interval_is_normal() -> None:
    scores = np.random.default_rng(1).random(MOST_SCORES + 1)
    half = 1.959963984540054 * scores.std(ddof=1) / np.sqrt(len(scores))
    found = interval(scores, 1000)
    assert found is not None and (found.method, found.resamples) == ("normal", None)
    assert (found.low, found.high) == pytest.approx((scores.mean() - half, scores.mean() + half), rel=0, abs=1e-9)
    few = interval(scores[:100], 0)
    assert few is not None and few.method == "normal"
    by_bootstrap = interval(scores[:100], 1000)
    assert by_bootstrap is not None and (by_bootstrap.method, by_bootstrap.resamples) == ("bca", 1000)
