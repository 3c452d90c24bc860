"""Counts pairs of numbers in a two-dimensional grid, for a heat map."""

import numpy as np

from api.numbers.outcome_column import Array
from gradebox.schemas.comparison import PairCounts
from storage.statistics.summary import BINS, inner_edges


def pair_counts(a: Array, b: Array) -> PairCounts | None:
    """Divides the common range of both into ten bins of equal width, as the histogram of a summary does.

    None if all are equal, or the range overflows a float.
    """
    if not len(a):
        return None
    low, high = float(min(a.min(), b.min())), float(max(a.max(), b.max()))
    with np.errstate(all="ignore"):
        if not (low < high and np.isfinite(high - low)):
            return None
    rows, columns = (np.searchsorted(inner_edges(low, high), scores, side="right") for scores in (a, b))
    counts = np.bincount(rows * BINS + columns, minlength=BINS * BINS).reshape(BINS, BINS)
    return PairCounts(low=low, high=high, counts=counts.tolist())
