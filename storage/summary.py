"""What is said of one grader's scores over a batch."""

import logging
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from msgspec.structs import asdict

from gradebox.outcome import Spent
from gradebox.schemas import BiasCount, HistogramBin, SpentSummary, Summary, ValueSummary
from storage.normal_interval import normal
from storage.reward_drift import Past, concerns
from storage.statistics import Tally, Values

BINS = 10
QUANTILES = {"p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}
NOT_MADE = "the summary could not be made, which is a fault of the service; the outcomes are complete. Report it"

_log = logging.getLogger(__name__)


def summary_of(grader: str, weight: float, counted: Tally, past: Sequence[Past] = ()) -> Summary | None:
    """As `summarise`; None where it fails, which is logged: the outcomes that it is made of are good all the same."""
    try:
        return summarise(grader, weight, counted, past)
    except Exception:  # noqa: BLE001  # whatever it is, the rest goes on
        _log.exception("the summary of %s could not be made", grader)
        return None


def summarise(grader: str, weight: float, counted: Tally, past: Sequence[Past] = ()) -> Summary:
    """The summary of a tally, with warnings where the scores may be no reward to train on.

    `past` are the grader's last finished batches, known once this one is finished.
    """
    found = concerns(grader, counted, past)
    scores = _sorted(counted)
    some = counted.scored > 0
    return Summary(
        grader=grader,
        weight=weight,
        count=counted.count,
        scored=counted.scored,
        errors=counted.errors,
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
    """None where nothing is scored, or nothing was counted."""
    return passed / scored if scored and passed is not None else None


def positional_bias(checked: int, detected: int) -> BiasCount | None:
    """None where no decision was made in both orders."""
    return BiasCount(checked=checked, detected=detected) if checked else None


def spent(found: Spent | None) -> SpentSummary | None:
    """What asks came to, as it is shown; None where nothing was asked."""
    return SpentSummary(**asdict(found)) if found is not None and found.asks else None


def _value(values: Values) -> ValueSummary:
    return ValueSummary(count=values.count, mean=_finite(values.mean), minimum=values.minimum, maximum=values.maximum)


def _finite(value: float) -> float | None:
    """None where scores near the largest float made the sum overflow: JSON has no infinity."""
    return value if math.isfinite(value) else None


class _Sorted(NamedTuple):
    """Scores from the lowest to the highest, and how many there are up to each."""

    values: list[float]
    ranks: list[int]


def _sorted(counted: Tally) -> _Sorted:
    """There may be thousands of values, so what is done with each is done by the library."""
    values = sorted(counted.values)
    ranks = list(accumulate(map(counted.values.__getitem__, values)))
    # Rounding may carry scores past the extremes, which are exact.
    below, above = bisect_left(values, counted.minimum), bisect_right(values, counted.maximum)
    values[:below] = [counted.minimum] * below
    values[above:] = [counted.maximum] * (len(values) - above)
    return _Sorted(values, ranks)


def _quantiles(scores: _Sorted) -> dict[str, float]:
    """The smallest score that at least this share of the scores does not exceed."""
    values, ranks = scores
    return {name: values[bisect_left(ranks, share * ranks[-1])] for name, share in QUANTILES.items()}


def _histogram(scores: _Sorted, low: float, high: float) -> list[HistogramBin]:
    values, ranks = scores
    if low == high:
        return bins(low, high, ranks[-1:])
    starts = [bisect_left(values, step, key=lambda score: int(_share(score, low, high) * BINS)) for step in range(BINS)]
    below = [ranks[start - 1] if start else 0 for start in starts]
    return bins(low, high, [end - start for start, end in pairwise([*below, ranks[-1]])])


def bin_of(score: float, low: float, high: float) -> int:
    """The number of the bin that counts a score, in the histogram of scores from `low` to `high`: as `_histogram` has
    it, of the score rounded as tallies round it.
    """
    rounded = min(max(float(f"{score:.3g}"), low), high)
    return min(int(_share(rounded, low, high) * BINS), BINS - 1)


def bins(low: float, high: float, counts: Sequence[int]) -> list[HistogramBin]:
    """Bins of equal width between the extremes, with so many scores in each; one where the extremes are equal."""
    number = len(counts)
    edges = sorted([low, *(_edge(low, high, step / number) for step in range(1, number)), high])
    return [HistogramBin(low=edges[i], high=edges[i + 1], count=counts[i]) for i in range(number)]


def weighted_mean(summaries: Sequence[Summary]) -> float | None:
    """The sum of weight times mean; None where a grader has none."""
    means = [(summary.weight, summary.mean) for summary in summaries]
    if not means or any(mean is None for _, mean in means):
        return None
    return sum(weight * mean for weight, mean in means if mean is not None)


def _share(score: float, low: float, high: float) -> float:
    """How far a score is on the way from low to high, from 0 to 1."""
    if low == high:
        return 0.0
    if math.isfinite(high - low):
        return (score - low) / (high - low)  # not 0: two floats that differ have a difference
    return (score / 2 - low / 2) / (high / 2 - low / 2)  # they are more than the largest float apart


def _edge(low: float, high: float, share: float) -> float:
    """Rounding may carry an edge past its neighbours, and over the largest float."""
    return min(max(low * (1 - share) + high * share, low), high)
