"""Intervals of the program for statistics. Each test process collects all tests, and would import SciPy for them."""

from api.numbers.outcome_column import Array
from gradebox.schemas import Interval


def bounds(scores: Array, resamples: int) -> tuple[float, float] | None:
    from api.numbers import bootstrap

    return bootstrap.bounds(scores, resamples)


def interval(scores: Array, resamples: int) -> Interval | None:
    from api.numbers import bootstrap

    return bootstrap.interval(scores, resamples)
