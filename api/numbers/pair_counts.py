"""Counts pairs of numbers in a two-dimensional grid, for a heat map."""

import numpy as np

from api.numbers.outcome_column import Array
from gradebox.comparison import PairCounts

PARTS = 10


def pair_counts(a: Array, b: Array) -> PairCounts | None:
    """Divides the common range of both into ten bins of equal width. None if all are equal, or the range overflows a
    float.
    """
    if not len(a):
        return None
    low, high = float(min(a.min(), b.min())), float(max(a.max(), b.max()))
    with np.errstate(all="ignore"):
        if not (low < high and np.isfinite(high - low)):
            return None
    counts, _, _ = np.histogram2d(a, b, bins=PARTS, range=((low, high), (low, high)))
    return PairCounts(low=low, high=high, counts=counts.astype(np.int64).tolist())
