"""Tests of the client's requests."""

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
