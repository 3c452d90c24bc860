"""Means and thresholds that rounding errors do not change."""

from collections.abc import Sequence
from math import fsum, isclose
from operator import mul

_ROUNDING = 1e-12


def mean(numbers: Sequence[float]) -> float:
    """Return the mean; if all numbers are equal, exactly that number."""
    return _within(fsum(numbers) / len(numbers), numbers)


def weighted_mean(weights: Sequence[float], numbers: Sequence[float]) -> float:
    """Return the mean with weights that sum to 1; if all numbers that count are equal, exactly that number. 0.0 if none
    counts.
    """
    counted = [number for weight, number in zip(weights, numbers, strict=True) if weight]
    return _within(fsum(map(mul, weights, numbers)), counted) if counted else 0.0


def is_above(value: float, threshold: float) -> bool:
    """Return whether the value is above the threshold by more than a rounding error."""
    return value > threshold and not isclose(value, threshold, rel_tol=_ROUNDING)


def _within(value: float, numbers: Sequence[float]) -> float:
    return min(max(value, min(numbers)), max(numbers))
