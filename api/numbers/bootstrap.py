"""Confidence intervals of means by bootstrap, computed as unitxt does. Only the program imports SciPy."""

import warnings

import numpy as np
from scipy.stats import DegenerateDataWarning, bootstrap

from api.numbers.jobs import MOST_SCORES
from api.numbers.outcome_column import Array
from gradebox.schemas import Interval
from storage.statistics.normal_interval import LEVEL, normal

_SEED = 42
_TOGETHER = 100  # resamples at a time: does not change the result, and memory grows with it


def bounds(scores: Array, resamples: int) -> tuple[float, float] | None:
    """BCa bounds, by SciPy. None for a single score, for equal scores, and if a bound is not finite."""
    if len(scores) < 2 or scores.min() == scores.max():
        return None
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", DegenerateDataWarning)
        found = bootstrap(
            (scores,),
            np.mean,
            n_resamples=resamples,
            batch=_TOGETHER,
            confidence_level=LEVEL,
            method="BCa",
            rng=np.random.default_rng(_SEED),
        ).confidence_interval
    low, high = float(found.low), float(found.high)
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
