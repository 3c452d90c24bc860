"""Scores of parts in, the score of their combination out."""

import asyncio
from contextlib import ExitStack
from typing import Any

import pytest

from gradebox import ModelError, NotApplicable, StringThread, testing
from gradebox.judges import Combine
from gradebox.score import Score

THREAD = StringThread([("user", "q"), ("assistant", "a")])
AWAY = ModelError("failed", "it is away", retryable=True)
BROKEN = ModelError("failed", "it divides by zero")


def combined(judge: Combine, **replies: Any) -> Score:
    with ExitStack() as stack:
        for key, reply in replies.items():
            stack.enter_context(testing.grader(f"{key}@3", [reply]))

        async def grade() -> Score:
            return await judge(THREAD)

        return asyncio.run(grade())


@pytest.mark.parametrize(
    ("settings", "score"),
    [
        ({}, 0.6),
        ({"weights": {"a": 1, "b": 3}}, 0.4),
        ({"weights": {"a": 1, "b": 0}}, 1.0),
        ({"formula": "0.25 * a + 0.25 * b"}, 0.3),
        ({"formula": "min(a, b) * 10"}, 2.0),
    ],
)
def test_weights_and_formulas(settings: dict[str, Any], score: float) -> None:
    found = combined(Combine({"a": "a@3", "b": "b@3"}, **settings), a=1.0, b=0.2)
    assert found == pytest.approx(score, abs=1e-9)
    assert found.values == {"a": 1.0, "b": 0.2}


def test_details_hold_what_each_part_says() -> None:
    reply = {"score": 0.5, "reason": "half", "details": {"option": "Partly"}}
    found = combined(Combine(["a@3", "b@3"]), a=reply, b=1)
    assert found.details == {
        "parts": {
            "a": {"grader": "a@3", "weight": 0.5, "score": 0.5, "reason": "half", "details": {"option": "Partly"}},
            "b": {"grader": "b@3", "weight": 0.5, "score": 1.0},
        }
    }


@pytest.mark.parametrize(("b", "retryable"), [(AWAY, True), (BROKEN, False), (0.5, True)])
def test_one_failure_fails_the_whole_with_the_parts_in_details(b: Any, retryable: bool) -> None:
    with pytest.raises(ModelError, match="so the whole has none: a: it is away") as failed:
        combined(Combine(["a@3", "b@3", "c@3"]), a=AWAY, b=b, c=1.0)
    assert (failed.value.kind, failed.value.retryable) == ("failed", retryable)
    assert failed.value.details is not None
    parts = failed.value.details["parts"]
    assert parts["a"]["error"] == {"kind": "failed", "message": "it is away", "retryable": True}
    assert parts["c"]["score"] == 1.0


def test_one_that_does_not_apply_makes_the_whole_so() -> None:
    with pytest.raises(NotApplicable, match="b: no documents") as told:
        combined(Combine(["a@3", "b@3"]), a=1.0, b=NotApplicable("no documents"))
    assert told.value.details is not None
    assert told.value.details["parts"]["b"]["not_applicable"] == "no documents"


def test_a_failure_goes_before_one_that_does_not_apply() -> None:
    with pytest.raises(ModelError, match="a: it divides by zero"):
        combined(Combine(["a@3", "b@3"]), a=BROKEN, b=NotApplicable())


def test_a_formula_without_a_value_is_an_error() -> None:
    with pytest.raises(ModelError, match="no value for these scores") as failed:
        combined(Combine(["a@3", "b@3"], formula="a / b"), a=1.0, b=0.0)
    assert failed.value.details is not None
    assert failed.value.details["parts"]["a"]["score"] == 1.0


def test_details_of_parts_that_do_not_fit_are_left_out() -> None:
    many = {"score": 1.0, "details": {f"member-{number}": number for number in range(1500)}}
    found = combined(Combine(["a@3", "b@3"]), a=many, b=1.0)
    assert found == 1.0
    assert found.details is not None
    assert "details" not in found.details["parts"]["a"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"graders": []}, "1 to 16"),
        ({"graders": ["a@1", "a@2"]}, "twice"),
        ({"graders": "a"}, "names and keys"),
        ({"graders": ["a"], "weights": {"a": 1}, "formula": "a"}, "give one of them"),
        ({"graders": ["a", "b"], "weights": {"a": 1}}, "one number for each"),
        ({"graders": ["a"], "weights": {"a": 0}}, "come to 0"),
        ({"graders": ["a"], "weights": {"a": -1}}, "0 or more"),
        ({"graders": ["a"], "weights": {"a": True}}, "0 or more"),
        ({"graders": ["has-answer"], "formula": "1"}, "cannot name the grader"),
        ({"graders": {"max": "a"}, "formula": "1"}, "cannot name the grader"),
        ({"graders": ["a"], "formula": "b"}, "cannot use b"),
    ],
)
def test_settings_that_are_none_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Combine(**settings)
