"""Confidence intervals of means from their moments."""

import math
from statistics import NormalDist

from gradebox.schemas import Interval

LEVEL = 0.95
_Z = NormalDist().inv_cdf((1 + LEVEL) / 2)


def normal(mean: float, deviation: float, count: int) -> Interval | None:
    """The normal confidence interval of a mean. `deviation` is that of the population. None for one value, for equal
    values, and if a bound overflows.
    """
    if count < 2 or deviation == 0:
        return None
    half = _Z * deviation / math.sqrt(count - 1)
    low, high = mean - half, mean + half
    if not (math.isfinite(low) and math.isfinite(high)):
        return None
    return Interval(low=low, high=high, level=LEVEL, method="normal")
