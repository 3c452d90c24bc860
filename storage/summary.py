"""What is said of one grader's scores over a batch."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from gradebox.schemas import HistogramBin, Summary
from storage.rewards import Past, concerns
from storage.tally import Tally

BINS = 10
QUANTILES = {"p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}


def summarise(grader: str, weight: float, counted: Tally, past: Sequence[Past] = ()) -> Summary:
    """The summary of a tally, with warnings where the scores may be no reward to train on.

    `past` are the grader's last finished batches, known once this one is finished.
    """
    found = concerns(grader, counted, past)
    scores = sorted((_inside(float(value), counted), count) for value, count in counted.values.items())
    some = counted.scored > 0
    return Summary(
        grader=grader,
        weight=weight,
        count=counted.count,
        scored=counted.scored,
        errors=counted.errors,
        mean=_finite(counted.mean) if some else None,
        deviation=_finite(math.sqrt(counted.m2 / counted.scored)) if some else None,
        minimum=counted.minimum if some else None,
        maximum=counted.maximum if some else None,
        quantiles=_quantiles(scores) if some else {},
        histogram=_histogram(scores, counted.minimum, counted.maximum) if some else [],
        run_ms_mean=counted.run_ms / counted.count if counted.count else None,
        warnings=[concern.message for concern in found],
        warning_kinds=[concern.kind for concern in found],
    )


def _finite(value: float) -> float | None:
    """None where scores near the largest float made the sum overflow: JSON has no infinity."""
    return value if math.isfinite(value) else None


def _inside(value: float, counted: Tally) -> float:
    """Rounding may carry a score past the extremes, which are exact."""
    return min(max(value, counted.minimum), counted.maximum)


def _quantiles(scores: list[tuple[float, int]]) -> dict[str, float]:
    """The smallest score that at least this share of the scores does not exceed."""
    ranks = list(accumulate(count for _, count in scores))
    return {name: scores[bisect_left(ranks, share * ranks[-1])][0] for name, share in QUANTILES.items()}


def _histogram(scores: list[tuple[float, int]], low: float, high: float) -> list[HistogramBin]:
    if low == high:
        return [HistogramBin(low=low, high=high, count=sum(count for _, count in scores))]
    # Halves, because the distance between two floats can be more than the largest float.
    edges = [low * (1 - step / BINS) + high * (step / BINS) for step in range(BINS)] + [high]
    counts = [0] * BINS
    for score, count in scores:
        position = (score / 2 - low / 2) / (high / 2 - low / 2) * BINS
        counts[min(int(position), BINS - 1)] += count
    return [HistogramBin(low=edges[i], high=edges[i + 1], count=counts[i]) for i in range(BINS)]
