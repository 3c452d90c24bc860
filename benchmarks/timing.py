"""Interleaved runs and their statistics: medians with quartiles, and ratios of medians."""

import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import NamedTuple


class Spread(NamedTuple):
    """The median and quartiles of some runs."""

    median: float
    low: float
    high: float
    runs: int

    def times(self, factor: float) -> "Spread":
        """The spread in another unit."""
        return Spread(self.median * factor, self.low * factor, self.high * factor, self.runs)


def spread(values: Sequence[float]) -> Spread:
    """The median and quartiles of these values."""
    low, median, high = statistics.quantiles([*values, *values] if len(values) == 1 else values, method="inclusive")
    return Spread(median, low, high, len(values))


def ratio(over: Sequence[float], under: Sequence[float]) -> Spread:
    """The ratio of the medians, with the quartiles of the ratios of each round."""
    each = spread([a / b for a, b in zip(over, under, strict=True)])
    return each._replace(median=statistics.median(over) / statistics.median(under))


def seconds(work: Callable[[], object]) -> float:
    """The seconds that `work` takes."""
    started = perf_counter()
    work()
    return perf_counter() - started


def interleaved(rounds: int, runs: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """The seconds of each run in each round. Every other round is in reverse, so that no run is always first."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds):
        for name in list(runs)[:: -1 if number % 2 else 1]:
            found[name].append(runs[name]())
    return found


@contextmanager
def pinned(cores: int) -> Iterator[None]:
    """Pins this process, and processes that it starts in the block, to the last `cores` of its cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[-cores:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that `percent` percent of the values do not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))]
