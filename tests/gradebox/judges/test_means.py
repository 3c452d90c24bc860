"""Tests of means and thresholds: no rounding error moves a score past the best option or a threshold."""

import pytest

from gradebox.judges.means import is_above, mean, weighted_mean


# A plain sum rounds at least one of the two means in each case.
@pytest.mark.parametrize(("number", "count"), [(0.7, 3), (0.8, 7), (0.2, 10), (1 / 3, 10), (-0.3, 10), (1.0, 10)])
def test_equal_numbers_are_their_own_mean(number: float, count: int) -> None:
    assert mean([number] * count) == number
    weights = [(place + 1) * 0.1 / (0.1 * count * (count + 1) / 2) for place in range(count)]
    assert weighted_mean(weights, [number] * count) == number


def test_different_numbers_have_a_mean_between_them() -> None:
    assert mean([0.0, 1.0, 0.5, 0.5]) == 0.5
    assert weighted_mean([0.25, 0.75], [1.0, 0.2]) == pytest.approx(0.4)
    assert weighted_mean([1 - 2**-53, 0.0], [1.0, 0.2]) == 1.0, "a number without a weight does not count"


def test_numbers_near_the_largest_float_have_a_mean() -> None:
    largest = 1.7976931348623157e308
    weights = [weight / 37 for weight in (4, 7, 9, 8, 9)]  # their sum is above 1, by rounding
    assert weighted_mean(weights, [largest] * 5) == largest
    assert weighted_mean(weights, [-largest] * 5) == -largest
    assert weighted_mean([0.5, 0.5], [largest, -largest]) == 0.0
    assert mean([largest] * 5) == largest
    assert mean([largest, largest / 2]) == largest * 0.75


def test_above_is_more_than_a_rounding_error() -> None:
    assert not is_above((0.4 - 0.1) / (0.7 - 0.1), 0.5)
    assert is_above(0.5 + 1e-9, 0.5)
    assert is_above(1e-300, 0.0)
    assert not is_above(0.4, 0.5)
