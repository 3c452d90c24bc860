"""Tests of the score of a combination of graders."""

import asyncio
import json
from contextlib import ExitStack
from math import inf, nan
from typing import Any, cast

import pytest

from gradebox import ModelError, NotApplicable, StringThread, testing
from gradebox.judges import Combine, DirectJudge
from gradebox.score import Score

THREAD = StringThread([("user", "q"), ("assistant", "a")])
AWAY = ModelError("failed", "it is away", retryable=True)
BROKEN = ModelError("failed", "it divides by zero")
SCALE = {"description": "How long?", "options": [{"name": "1"}, {"name": "5"}]}


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
        ({"a": {"weight": 1}, "b": {"weight": 3}}, 0.4),
        ({"a": {"weight": 1}, "b": {"weight": 0}}, 1.0),
        ({"b": {"score_threshold": 0.1}}, 1.0),
        ({"b": {"score_threshold": 0.2}}, 0.5),
        ({"b": {"required": True}}, 0.0),
        ({"a": {"required": True}}, 0.6),
        ({"a": {"range": [0, 2]}, "b": {"range": [-1, 1]}, "normalize": True}, 0.55),
        ({"a": {"range": [0, 2], "score_threshold": 0.5}, "b": {"range": [0, 1]}, "normalize": True}, 0.1),
        ({"formula": "a + b", "b": {"score_threshold": 0}}, 2.0),
        ({"formula": "a + b", "b": {"required": True}}, 0.0),
        ({"formula": "0.25 * a + 0.25 * b"}, 0.3),
        ({"formula": "min(a, b) * 10"}, 2.0),
    ],
)
def test_weights_and_formulas(settings: dict[str, Any], score: float) -> None:
    parts: Any = {name: {"grader": f"{name}@3", **settings.get(name, {})} for name in "ab"}
    more = {name: setting for name, setting in settings.items() if name not in parts}
    found = combined(Combine(parts, **more), a=1.0, b=0.2)
    assert found == pytest.approx(score, abs=1e-9)
    assert found.values == {"a": 1.0, "b": 0.2}


@pytest.mark.parametrize("weights", [(0.02, 0.85, 0.27), (0.3, 0.41, 1.07), (1, 2, 4)])
def test_equal_scores_are_their_own_mean(weights: tuple[float, ...]) -> None:
    parts: Any = {name: {"grader": name, "weight": weight} for name, weight in zip("abc", weights, strict=True)}
    combination = Combine(parts)
    for score in (1.0, 0.7):
        assert combination.result_of(dict.fromkeys("abc", Score(score))) == score


def test_details_hold_what_each_part_says() -> None:
    reply = {"score": 0.5, "reason": "half", "details": {"option": "Partly"}}
    found = combined(Combine(["a@3", "b@3"]), a=reply, b=1)
    of_a = {"grader": "a@3", "weight": 0.5, "score": 0.5, "counted": 0.5, "weighted": 0.25}
    of_b = {"grader": "b@3", "weight": 0.5, "score": 1.0, "counted": 1.0, "weighted": 0.5}
    assert found.details == {"parts": {"a": of_a | {"reason": "half", "details": {"option": "Partly"}}, "b": of_b}}


@pytest.mark.parametrize(("b", "retryable"), [(AWAY, True), (BROKEN, False), (0.5, True)])
def test_one_failure_fails_the_whole_with_the_parts_in_details(b: Any, retryable: bool) -> None:
    with pytest.raises(ModelError, match="so the whole has none: a: it is away") as failed:
        combined(Combine(["a@3", "b@3", "c@3"]), a=AWAY, b=b, c=1.0)
    assert (failed.value.kind, failed.value.retryable) == ("failed", retryable)
    assert failed.value.details is not None
    parts = failed.value.details["parts"]
    away = {"kind": "failed", "message": "it is away", "retryable": True}
    assert parts["a"] == {"grader": "a@3", "weight": 1 / 3, "score": None, "weighted": None, "error": away}
    assert parts["c"]["score"] == 1.0


def test_one_that_does_not_apply_makes_the_whole_so() -> None:
    with pytest.raises(NotApplicable, match="b: no documents") as told:
        combined(Combine(["a@3", "b@3"]), a=1.0, b=NotApplicable("no documents"))
    assert told.value.details is not None and told.value.details["parts"]["b"]["not_applicable"] == "no documents"


def test_a_failure_goes_before_one_that_does_not_apply() -> None:
    with pytest.raises(ModelError, match="a: it divides by zero"):
        combined(Combine(["a@3", "b@3"]), a=BROKEN, b=NotApplicable())


def test_a_formula_without_a_value_is_an_error() -> None:
    with pytest.raises(ModelError, match="no value for these scores") as failed:
        combined(Combine(["a@3", "b@3"], formula="a / b"), a=1.0, b=0.0)
    assert failed.value.details is not None
    assert failed.value.details["parts"]["a"] == {"grader": "a@3", "score": 1.0, "counted": 1.0, "weighted": None}


def test_details_of_parts_that_do_not_fit_are_left_out() -> None:
    many = {"score": 1.0, "details": {f"member-{number}": number for number in range(1500)}}
    found = combined(Combine(["a@3", "b@3"]), a=many, b=1.0)
    assert found == 1.0
    assert found.details is not None and "details" not in found.details["parts"]["a"]


def test_a_part_may_aim_at_an_option() -> None:
    parts: Any = {name: {"grader": f"{name}@3", "target_option": "Yes"} for name in "ab"}
    chosen = [{"score": 5.0, "details": {"option": option}} for option in ("Yes", "No")]
    assert combined(Combine(parts), a=chosen[0], b=chosen[1]) == 0.5
    with pytest.raises(ModelError, match="b says no option"):
        combined(Combine(parts), a=chosen[0], b=1.0)


def test_a_score_outside_its_range_fails_the_whole() -> None:
    parts: Any = {name: {"grader": f"{name}@3", "range": [0, 2]} for name in "ab"}
    with pytest.raises(ModelError, match="b scored 7, which is not between 0 and 2") as failed:
        combined(Combine(parts, normalize=True), a=0.5, b=7)
    assert failed.value.details is not None and failed.value.details["parts"]["a"]["counted"] == 0.25


def test_a_part_may_be_a_judge_by_its_kind_or_an_object() -> None:
    judge = {"kind": "judge", "config": {"criterion": SCALE, "judge_model": "m"}}
    parts: Any = {"long": judge, "polite": DirectJudge("Is it polite?", "m"), "own": {"judge": own, "range": [0, 2]}}
    replies = [json.dumps({"reasoning": "r", "option": option}) for option in ("5", "No")]
    with testing.model("m", replies) as asked:
        found = asyncio.run(Combine(parts)(THREAD))
    assert (len(asked), found.values) == (2, {"long": 5.0, "polite": 0.0, "own": 1.0})
    assert found == pytest.approx(2.0)
    parts["polite"] = {"judge": parts["polite"], "range": [0, 1]}
    with testing.model("m", replies):
        assert asyncio.run(Combine(parts, normalize=True)(THREAD)) == pytest.approx(0.5)


def test_the_range_of_several_criteria_is_that_of_their_options() -> None:
    options = [{"name": "yes", "score": 0.5}, {"name": "no", "score": 0.1}]
    criteria = [{"description": f"Is it {what}?", "options": options} for what in ("kind", "true")]
    config = {"criteria": criteria, "model": "m", "normalize_scores": False, "self_consistency": 3}
    combination = Combine({"a": {"kind": "multi_criteria", "config": config}}, normalize=True)
    for option, score in (("yes", 1.0), ("no", 0.0)):
        with testing.model("m", [{"reasoning": "r", "option": option}] * 6):
            assert asyncio.run(combination(THREAD)) == score


async def own(thread: StringThread) -> float:
    return float(len(thread.completion() or ""))


def test_what_a_judge_in_the_source_raises_fails_its_part() -> None:
    async def broken(thread: StringThread) -> float:
        raise KeyError("answer")

    with pytest.raises(ModelError, match="b: KeyError: 'answer'") as failed:
        asyncio.run(Combine({"a": own, "b": broken})(THREAD))
    assert failed.value.details is not None and failed.value.details["parts"]["a"]["score"] == 1.0


@pytest.mark.parametrize(
    "returned", ["0.7", None, nan, inf, 10**400, Score(nan)], ids=["text", "none", "nan", "inf", "huge", "score"]
)
def test_a_judge_in_the_source_that_returns_no_finite_number_fails_its_part(returned: Any) -> None:
    async def wrong(thread: StringThread) -> float:
        return cast("float", returned)

    with pytest.raises(ModelError, match=r"b: it returned .*, and a score is a finite number") as failed:
        asyncio.run(Combine({"a": own, "b": wrong}, formula="min(a, b)")(THREAD))
    assert failed.value.details is not None
    assert failed.value.details["parts"]["a"]["score"] == 1.0


MADE = DirectJudge("brief?", "m")
LONG: dict[str, Any] = {"kind": "judge", "config": {"criterion": SCALE, "model": "m"}}
BRIEF: dict[str, Any] = {"kind": "judge", "config": {"criterion": "conciseness", "model": "m"}}
OWN: dict[str, Any] = {"kind": "judge", "config": {"criterion": {"field": "metadata.criterion"}, "model": "m"}}
CHECKED: dict[str, Any] = {"kind": "binary_judge", "config": {"criteria": "It is brief", "model": "m"}}
WHOLE: dict[str, Any] = {"kind": "multi_criteria", "config": {"criteria": ["conciseness"], "model": "m"}}


@pytest.mark.parametrize(
    "part",
    [
        BRIEF | {"target_option": "Yes"},
        BRIEF | {"score_threshold": 0.999},
        LONG | {"score_threshold": 4},
        OWN | {"score_threshold": 7},
        OWN | {"target_option": "any"},
        WHOLE | {"score_threshold": 0.5},
        {"grader": "a", "score_threshold": 7},
        {"grader": "a", "target_option": "any"},
    ],
)
def test_what_may_count_is_taken(part: Any) -> None:
    assert [read.name for read in Combine({"a": part}).parts] == ["a"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"parts": []}, "1 to 16"),
        ({"parts": ["a@1", "a@2"]}, "twice"),
        ({"parts": "a"}, "names and keys"),
        ({"parts": {"a": {"grader": "a", "weight": 1}}, "formula": "a"}, "give one of them"),
        ({"parts": {"a": {"grader": "a", "weight": 1}, "b": "b"}}, "'b' has no weight"),
        ({"parts": {"a": {"grader": "a", "weight": 0}}}, "come to 0"),
        ({"parts": {name: {"grader": name, "weight": 1e308} for name in "ab"}}, "more than a number holds"),
        ({"parts": {"a": {"grader": "a", "weight": -1}}}, "0 or more"),
        ({"parts": {"a": {"grader": "a", "weight": True}}}, "0 or more"),
        ({"parts": {"a": {"grader": "a", "kind": "judge"}}}, "one of grader"),
        ({"parts": {"a": {"weight": 1}}}, "one of grader"),
        ({"parts": {"a": {"grader": "a", "wait": 1}}}, "has the member 'wait'"),
        ({"parts": {"a": {"grader": "a", "target_option": "x", "score_threshold": 1}}}, "without score_threshold"),
        ({"parts": {"a": {"grader": "a", "score_threshold": "x"}}}, "is a number"),
        ({"parts": {"a": BRIEF | {"target_option": "yes"}}}, "is 'yes', and the options are 'Yes', 'No'"),
        ({"parts": {"a": {"judge": MADE, "target_option": "yes"}}}, "the options are 'Yes', 'No'"),
        ({"parts": {"a": BRIEF | {"score_threshold": 1}}}, "no score is above 1"),
        ({"parts": {"a": LONG | {"score_threshold": 5}}}, "no score is above 5"),
        ({"parts": {"a": LONG | {"score_threshold": 2}}, "normalize": True}, "no score is above 1"),
        ({"parts": {"a": {"judge": MADE, "score_threshold": 1}}}, "no score is above 1"),
        ({"parts": {"a": CHECKED | {"score_threshold": 1}}}, "no score is above 1"),
        ({"parts": {"a": {"grader": "a", "range": [0, 2], "score_threshold": 1}}, "normalize": True}, "can never be"),
        ({"parts": {"a": {"grader": "a", "range": [-1e308, 1e308]}}, "normalize": True}, "wider than a number holds"),
        ({"parts": {"a": {"grader": "a", "required": 1}}}, "true or false"),
        ({"parts": {"a": 1}}, "key of a grader"),
        ({"parts": ["a"], "normalize": True}, "without their range"),
        ({"parts": {"a": {"grader": "a", "range": [1, 1]}}, "normalize": True}, "lowest first"),
        ({"parts": ["a"], "normalize": 1}, "true or false"),
        ({"parts": {"a": {"kind": "combine", "config": {}}}}, "no part by itself"),
        ({"parts": {"a": {"kind": "judge", "config": {"model": "m"}}}}, "config.criterion is missing"),
        ({"parts": {"a": {"kind": "guess", "config": {}}}}, "there is no kind"),
        ({"parts": ["has-answer"], "formula": "1"}, "cannot name the grader"),
        ({"parts": {"max": "a"}, "formula": "1"}, "cannot name the grader"),
        ({"parts": ["a"], "formula": "b"}, "cannot use b"),
        ({"parts": ["a"], "formula": "min(1, 2)"}, "names no part"),
    ],
)
def test_settings_that_are_none_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Combine(**settings)
