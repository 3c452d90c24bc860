"""Finite numbers: their means and thresholds, which rounding errors do not change."""

from collections.abc import Sequence
from math import fsum, isclose
from operator import mul
from sys import float_info

_ROUNDING = 1e-12


def is_number(value: object) -> bool:
    """Return whether the value is a number that a float holds; a bool is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= float_info.max


def mean(numbers: Sequence[float]) -> float:
    """Return the mean; if all numbers are equal, exactly that number."""
    try:
        value = fsum(numbers) / len(numbers)
    except OverflowError:  # the sum exceeds the largest float, and the mean does not
        value = 2 * fsum(number / 2 / len(numbers) for number in numbers)
    return _within(value, numbers)


def weighted_mean(weights: Sequence[float], numbers: Sequence[float]) -> float:
    """Return the mean with weights that sum to 1; if all numbers that count are equal, exactly that number. 0.0 if none
    counts.
    """
    counted = [number for weight, number in zip(weights, numbers, strict=True) if weight]
    if not counted:
        return 0.0
    try:
        value = fsum(map(mul, weights, numbers))
    except OverflowError:  # the sum exceeds the largest float by a rounding error of the weights, or on the way
        value = 2 * fsum(weight * (number / 2) for weight, number in zip(weights, numbers, strict=True))
    return _within(value, counted)


def is_above(value: float, threshold: float) -> bool:
    """Return whether the value is above the threshold by more than a rounding error."""
    return value > threshold and not isclose(value, threshold, rel_tol=_ROUNDING)


def _within(value: float, numbers: Sequence[float]) -> float:
    return min(max(value, min(numbers)), max(numbers))
