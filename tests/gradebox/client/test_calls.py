"""Tests of the client's requests."""

from fractions import Fraction
from typing import Any

import pytest

from gradebox.client import calls


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


def test_bounds_are_sent_as_python_numbers() -> None:
    third = Fraction(1, 3)
    params = calls.agreement("default", "B", None, "metadata.good", third).params  # type: ignore[arg-type]
    assert ("threshold", repr(1 / 3)) in params
    page = calls.table("default", "B", None, None, third, third, None, None, "index", 1, 5)  # type: ignore[arg-type]
    assert {("low", repr(1 / 3)), ("high", repr(1 / 3))} <= set(page.params)
    with pytest.raises(ValueError, match="could not convert"):
        calls.agreement("default", "B", None, "metadata.good", "high")  # type: ignore[arg-type]
