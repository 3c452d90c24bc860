"""Counts pairs of numbers in a two-dimensional grid, for a heat map."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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
    rows, columns = (_bins_of(side, inner_edges(low, high)) for side in (a, b))
    counts = np.bincount(rows * BINS + columns, minlength=BINS * BINS).reshape(BINS, BINS)
    return PairCounts(low=low, high=high, counts=counts.tolist())


def _bins_of(scores: Array, edges: Sequence[float]) -> NDArray[np.int64]:
    """The number of each score's bin, as `bin_of` gives it. To compare with each edge takes a third of a search."""
    found = np.zeros(len(scores), dtype=np.int64)
    for edge in edges:
        found += scores >= edge
    return found
