"""Tests of the client's requests."""

from fractions import Fraction
from typing import Any

import pytest

from gradebox.client import calls
from gradebox.errors import GradeboxError


@pytest.mark.parametrize(
    ("graders", "weights"),
    [
        ("g@2", {"g@2": 1.0}),
        (["g", "h@1"], {"g": 1.0, "h@1": 1.0}),
        (iter(["g@1", "g@2"]), {"g@1": 1.0, "g@2": 1.0}),
        ({"g": 0.7, "h": 0.3}, {"g": 0.7, "h": 0.3}),
    ],
)
def test_graders_have_weights(graders: Any, weights: dict[str, float]) -> None:
    assert calls.weights_of(graders) == weights


@pytest.mark.parametrize("graders", [["g", "g"], ("h", "g@1", "g@1")])
def test_a_grader_named_twice_is_refused(graders: Any) -> None:
    with pytest.raises(ValueError, match=r"the grader 'g(@1)?' is named twice: name it once"):
        calls.create_batch("default", graders, [])
    with pytest.raises(ValueError, match="is named twice"):
        calls.create_batch_of("default", graders, "B")


@pytest.mark.parametrize("budget", [0.5, {"cost": 0.5}, "1"])
def test_a_budget_that_is_none_says_how_one_is_written(budget: Any) -> None:
    for create in (calls.create_batch, calls.create_batch_of):
        with pytest.raises(TypeError, match=r"is no budget: write gradebox.BatchBudget\(cost=0.5\)"):
            create("default", "g", "B", budget)


@pytest.mark.parametrize("weight", ["x", "0.5", None, [1]])
def test_a_weight_is_a_number(weight: Any) -> None:
    with pytest.raises(TypeError, match=r"the weight of 'g' is .* and a weight is a number"):
        calls.weights_of({"g": weight})


@pytest.mark.parametrize(
    ("grader", "version", "found"),
    [("g", None, None), ("g", 2, 2), ("g", 0, 0), ("g@2", None, 2), ("g@2", 2, 2)],
)
def test_a_version_is_named_by_the_grader_or_beside_it(grader: str, version: int | None, found: int | None) -> None:
    assert calls.version_of(grader, version) == ("g", found)


def test_two_versions_of_one_grader_are_refused() -> None:
    with pytest.raises(ValueError, match="'g@1' is version 1, and version=2 is another: give one of them"):
        calls.version_of("g@1", 2)
    with pytest.raises(ValueError, match="from 1 on"):
        calls.version_of("g@0", None)


@pytest.mark.parametrize("key", ["", "a/b", 5, None])
def test_what_is_no_key_is_not_sent(key: Any) -> None:
    with pytest.raises(GradeboxError, match="is no key or id: pass text"):
        calls.score("default", key, None, [])


def test_bounds_are_sent_as_python_numbers() -> None:
    third = Fraction(1, 3)
    params = calls.agreement("default", "B", None, "metadata.good", third).params  # type: ignore[arg-type]
    assert ("threshold", repr(1 / 3)) in params
    page = calls.table("default", "B", None, None, third, third, None, None, "index", 1, 5)  # type: ignore[arg-type]
    assert {("low", repr(1 / 3)), ("high", repr(1 / 3))} <= set(page.params)
    with pytest.raises(ValueError, match="could not convert"):
        calls.agreement("default", "B", None, "metadata.good", "high")  # type: ignore[arg-type]
