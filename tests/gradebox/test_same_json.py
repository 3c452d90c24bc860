"""Tests of the equality of JSON values."""

import tracemalloc
from typing import Any

import pytest

from gradebox.same_json import same


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), ("a", "a"), (None, None), ([1, {"a": [2.0]}], (1.0, {"a": [2]}))])
def test_values_that_are_equal(one: Any, other: Any) -> None:
    assert same(one, other)
    assert same(other, one)


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (0, False), (0, None), ("1", 1), ([1], [True]), ([1], [1, 1]), ({"a": 1}, {"b": 1})]
)
def test_values_that_differ(one: Any, other: Any) -> None:
    assert not same(one, other)
    assert not same(other, one)


def test_values_that_are_nested_deeply_are_compared_to_their_end() -> None:
    one, other = list[Any](), tuple[Any, ...]()
    for _ in range(5000):
        one, other = [one], (other,)
    assert same(one, other)
    assert not same(one, (other,))


def test_many_values_are_compared_in_little_memory() -> None:
    """In the sandbox, a list of each pair of them would take more than a grader's memory."""
    many = [0] * 100_000
    tracemalloc.start()
    try:
        assert same({"a": many}, {"a": [*many]})
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
