"""Summary of one grader's scores over a batch."""

import logging
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

from msgspec.structs import asdict

from gradebox.outcome import Spent, weighted_sum
from gradebox.schemas import BiasCount, HistogramBin, Spending, Summary, ValueSummary
from storage.statistics.normal_interval import normal
from storage.statistics.outcome_tally import Tally, Values
from storage.statistics.reward_warnings import Past, concerns

BINS = 10
QUANTILES = {"p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}
NOT_MADE = "the summary could not be made, which is a fault of the service; the outcomes are complete. Report it"

_log = logging.getLogger(__name__)


def summary_of(
    grader: str, weight: float, counted: Tally, past: Sequence[Past] = (), python: str | None = None
) -> Summary | None:
    """Like `summarise`, but logs an error and returns None: the outcomes are valid even without a summary."""
    try:
        return summarise(grader, weight, counted, past, python)
    except Exception:  # noqa: BLE001  # no error in a summary may stop the caller
        _log.exception("the summary of %s could not be made", grader)
        return None


def summarise(
    grader: str, weight: float, counted: Tally, past: Sequence[Past] = (), python: str | None = None
) -> Summary:
    """The summary of a tally, with warnings if the scores may be unsuitable as rewards.

    `past`: the grader's last finished batches; known only once this batch is finished.
    `python`: the version of Python that the grader was checked in; None if it is unknown.
    """
    found = concerns(grader, counted, past, python)
    scores = _sorted(counted)
    some = counted.scored > 0
    return Summary(
        grader=grader,
        weight=weight,
        count=counted.count,
        scored=counted.scored,
        errors=counted.errors,
        retryable=counted.retryable if counted.errors else 0,
        not_applicable=counted.not_applicable,
        mean=_finite(counted.mean) if some else None,
        interval=normal(counted.mean, math.sqrt(counted.m2 / counted.scored), counted.scored) if some else None,
        passed=counted.passed if some else 0,
        pass_rate=pass_rate(counted.passed, counted.scored),
        options=counted.options,
        options_left_out=counted.options_left_out,
        positional_bias=positional_bias(counted.bias_checked, counted.bias_detected),
        deviation=_finite(math.sqrt(counted.m2 / counted.scored)) if some else None,
        minimum=counted.minimum if some else None,
        maximum=counted.maximum if some else None,
        quantiles=_quantiles(scores) if some else {},
        histogram=_histogram(scores, counted.minimum, counted.maximum) if some else [],
        run_ms_mean=_finite(counted.run_ms / counted.count) if counted.count else None,
        values={name: _value(values) for name, values in counted.named.items()},
        values_left_out=counted.left_out,
        spent=spent(counted.spent),
        warnings=[concern.message for concern in found],
        warning_kinds=[concern.kind for concern in found],
    )


def pass_rate(passed: int | None, scored: int) -> float | None:
    """The share of scores that pass; None if there are no scores, or passes were not counted."""
    return passed / scored if scored and passed is not None else None


def positional_bias(checked: int, detected: int) -> BiasCount | None:
    """The counts of positional bias; None if no decision was made in both orders."""
    return BiasCount(checked=checked, detected=detected) if checked else None


def spent(found: Spent | None) -> Spending | None:
    """The cost of asks as the API shows it; None if there were no asks."""
    return Spending(**asdict(found)) if found is not None and found.asks else None


def _value(values: Values) -> ValueSummary:
    return ValueSummary(count=values.count, mean=_finite(values.mean), minimum=values.minimum, maximum=values.maximum)


def _finite(value: float) -> float | None:
    """The value; None if scores near the largest float made the sum overflow, because JSON has no infinity."""
    return value if math.isfinite(value) else None


class _Sorted(NamedTuple):
    """Distinct scores in ascending order, and for each the number of scores up to it."""

    values: list[float]
    ranks: list[int]


def _sorted(counted: Tally) -> _Sorted:
    """Sorts the values of a tally, with library functions only, because there may be thousands of values."""
    values = sorted(counted.values)
    ranks = list(accumulate(map(counted.values.__getitem__, values)))
    # Tallies of earlier releases have scores rounded to three digits, which may be beyond the extremes.
    below, above = bisect_left(values, counted.minimum), bisect_right(values, counted.maximum)
    values[:below] = [counted.minimum] * below
    values[above:] = [counted.maximum] * (len(values) - above)
    return _Sorted(values, ranks)


def _quantiles(scores: _Sorted) -> dict[str, float]:
    """For each share, the smallest value that at least this share of the scores does not exceed."""
    values, ranks = scores
    return {name: values[bisect_left(ranks, share * ranks[-1])] for name, share in QUANTILES.items()}


def _histogram(scores: _Sorted, low: float, high: float) -> list[HistogramBin]:
    values, ranks = scores
    starts = [bisect_left(values, edge) for edge in inner_edges(low, high)]
    below = [ranks[start - 1] if start else 0 for start in starts]
    return bins(low, high, [end - start for start, end in pairwise([0, *below, ranks[-1]])])


def bin_of(score: float, low: float, high: float) -> int:
    """The number of the bin that counts a score in the histogram of scores from `low` to `high`, as in `_histogram`."""
    return bisect_right(inner_edges(low, high), score)


def bins(low: float, high: float, counts: Sequence[int]) -> list[HistogramBin]:
    """Bins of equal width between the extremes, one per count. Callers pass one count if the extremes are equal."""
    edges = pairwise([low, *inner_edges(low, high), high])
    return [HistogramBin(low=start, high=end, count=count) for (start, end), count in zip(edges, counts, strict=True)]


@lru_cache(64)
def inner_edges(low: float, high: float) -> tuple[float, ...]:
    """The edges between the bins, in ascending order; none if the extremes are equal. A score at an edge is in the bin
    above. They are computed as decimals, so that 0.21 of 0 to 0.7 and -0.8 of -2 to 2 are edges.
    """
    if low == high:
        return ()
    start, width = Fraction(str(low)), Fraction(str(high)) - Fraction(str(low))
    return tuple(float(start + width * step / BINS) for step in range(1, BINS))


def weighted_mean(summaries: Sequence[Summary]) -> float | None:
    """The sum of weight times mean; None if there is no grader or one has no mean."""
    return weighted_sum((summary.weight, summary.mean) for summary in summaries) if summaries else None
