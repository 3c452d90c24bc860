"""Tests of the names of graders."""

from typing import Any

import pytest

from gradebox.client import grader_names


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
    assert grader_names.weights_of(graders) == weights


@pytest.mark.parametrize("weight", ["x", "0.5", None, [1]])
def test_a_weight_is_a_number(weight: Any) -> None:
    with pytest.raises(TypeError, match=r"the weight of 'g' is .* and a weight is a number"):
        grader_names.weights_of({"g": weight})


@pytest.mark.parametrize(
    ("grader", "version", "found"), [("g", None, None), ("g", 2, 2), ("g", 0, 0), ("g@2", None, 2), ("g@2", 2, 2)]
)
def test_a_version_is_named_by_the_grader_or_beside_it(grader: str, version: int | None, found: int | None) -> None:
    assert grader_names.version_of(grader, version) == ("g", found)


def test_two_versions_of_one_grader_are_refused() -> None:
    with pytest.raises(ValueError, match="'g@1' is version 1, and version=2 is another: give one of them"):
        grader_names.version_of("g@1", 2)
    with pytest.raises(ValueError, match="from 1 on"):
        grader_names.version_of("g@0", None)
