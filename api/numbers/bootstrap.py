"""Confidence intervals of means by bootstrap, with the numbers of SciPy, which unitxt uses: its import takes 0.7 s."""

from statistics import NormalDist

import numpy as np

from api.numbers.jobs import MOST_SCORES
from api.numbers.outcome_column import Array
from gradebox.schemas import Interval
from storage.normal_interval import LEVEL, normal

_SEED = 42
_TOGETHER = 100  # resamples at a time: does not change the result, and memory grows with it
_NORMAL = NormalDist()


def bounds(scores: Array, resamples: int) -> tuple[float, float] | None:
    """BCa bounds (Efron and Tibshirani, An Introduction to the Bootstrap, 14.3). None for a single score, for equal
    scores, and if a bound is not finite.
    """
    if len(scores) < 2 or scores.min() == scores.max():
        return None
    random, count = np.random.default_rng(_SEED), len(scores)
    with np.errstate(all="ignore"):
        means = np.concatenate(
            [
                scores[random.integers(0, count, (min(_TOGETHER, resamples - done), count))].mean(axis=-1)
                for done in range(0, resamples, _TOGETHER)
            ]
        )
        mean = scores.mean()
        below = ((means < mean).mean() + (means <= mean).mean()) / 2
        deviations = scores - mean  # those of the jackknife's means, times the count less one
        acceleration = (deviations**3).sum() / (deviations**2).sum() ** 1.5 / 6
        if not (0 < below < 1 and np.isfinite(acceleration)):
            return None
        bias = _NORMAL.inv_cdf(below)
        away = bias + np.array([-1, 1]) * _NORMAL.inv_cdf((1 + LEVEL) / 2)
        shares = [_NORMAL.cdf(place) for place in bias + away / (1 - acceleration * away)]
        low, high = (float(bound) for bound in np.quantile(means, shares))
    return (low, high) if np.isfinite(low) and np.isfinite(high) else None


def interval(scores: Array, resamples: int) -> Interval | None:
    """The interval of a mean: by bootstrap for few scores if `resamples` > 0, else a normal one. None for a single
    score and for equal scores.
    """
    if len(scores) < 2 or scores.min() == scores.max():
        return None
    if resamples and len(scores) <= MOST_SCORES:
        found = bounds(scores, resamples)
        return found and Interval(low=found[0], high=found[1], level=LEVEL, method="bca", resamples=resamples)
    with np.errstate(all="ignore"):
        return normal(float(scores.mean()), float(scores.std()), len(scores))
