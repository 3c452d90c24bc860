"""Tests of the score of several criteria."""

import asyncio
import json
from typing import Any

import pytest

from gradebox import ModelError, StringThread, testing
from gradebox.judges import Criterion, CriterionItem, MultiCriteria, Option
from gradebox.score import Score

THREAD = StringThread([("user", "q"), ("assistant", "a")])
SCALE = Criterion("How good?", tuple(Option(str(number)) for number in range(1, 6)), "scale")
KIND = Criterion("Is it kind?", (Option("Yes", "", 1.0), Option("No", "", 0.0)), "kind")
TENTHS = Criterion("How warm?", tuple(Option(name) for name in ("0.1", "0.4", "0.7")), "tenths")
DIFFERENT = {"scale": "1", "kind": "Yes", "tone": "cold"}
BARE = Criterion("Which tone?", (Option("warm"), Option("cold")), "tone")


def judged(judge: MultiCriteria, **decisions: str | ModelError) -> Score:
    """The score if the judge makes these decisions, by the name of the criterion."""

    def reply(request: dict[str, Any]) -> str | ModelError:
        prompt = request["messages"][-1]["content"]
        said = next(option for name, option in decisions.items() if f"{name}: " in prompt or name in prompt)
        return said if isinstance(said, ModelError) else json.dumps({"reasoning": "so", "option": said})

    async def grade() -> Score:
        return await judge(THREAD)

    with testing.model("m", reply):
        return asyncio.run(grade())


def of(*items: Any, **settings: Any) -> MultiCriteria:
    return MultiCriteria(list(items), "m", **settings)


@pytest.mark.parametrize(
    ("judge", "decisions", "score"),
    [
        (of(SCALE, KIND), {"scale": "2", "kind": "Yes"}, 0.625),
        (of(SCALE, KIND, normalize_scores=False), {"scale": "2", "kind": "Yes"}, 1.5),
        (of(CriterionItem(SCALE, 0.3), CriterionItem(KIND, 0.7)), {"scale": "4", "kind": "No"}, 0.225),
        (of(CriterionItem(SCALE, target_option="4"), KIND), {"scale": "4", "kind": "No"}, 0.5),
        (of(CriterionItem(SCALE, target_option="4"), KIND), {"scale": "5", "kind": "No"}, 0.0),
        (of(CriterionItem(SCALE, score_threshold=0.75)), {"scale": "4"}, 0.0),  # the score must be above the threshold
        (of(CriterionItem(SCALE, score_threshold=0.75)), {"scale": "5"}, 1.0),
        (of(CriterionItem(SCALE, score_threshold=3), normalize_scores=False), {"scale": "4"}, 1.0),
        (of(CriterionItem(SCALE, required=True), KIND), {"scale": "4", "kind": "Yes"}, 0.0),
        (of(CriterionItem(SCALE, required=True), KIND), {"scale": "5", "kind": "No"}, 0.5),
        (of(CriterionItem(SCALE, 0.0, required=True), CriterionItem(KIND, 1)), {"scale": "4", "kind": "Yes"}, 0.0),
        (of(CriterionItem(SCALE, 0.0, required=True), CriterionItem(KIND, 1)), {"scale": "5", "kind": "Yes"}, 1.0),
        (of(CriterionItem(TENTHS, required=True), self_consistency=3), {"tenths": "0.7"}, 1.0),
        (of(CriterionItem(TENTHS, score_threshold=0.5)), {"tenths": "0.4"}, 0.0),
        (of(CriterionItem(SCALE, required=True), normalize_scores=False), {"scale": "1"}, 1.0),
        (of(CriterionItem(BARE, target_option="warm")), {"tone": "warm"}, 1.0),
        (of(SCALE, KIND, CriterionItem(BARE, target_option="cold")), DIFFERENT, 2 / 3),
    ],
)
def test_numbers(judge: MultiCriteria, decisions: dict[str, Any], score: float) -> None:
    assert judged(judge, **decisions) == pytest.approx(score, abs=1e-9)


@pytest.mark.parametrize(
    ("judge", "bounds"),
    [
        (of(SCALE, KIND), (0.0, 1.0)),
        (of(SCALE, KIND, normalize_scores=False), (0.5, 3.0)),
        (of(CriterionItem(SCALE, 0.25), CriterionItem(TENTHS, 0.75), normalize_scores=False), (0.325, 1.775)),
        (of(CriterionItem(SCALE, score_threshold=3), TENTHS, normalize_scores=False), (0.05, 0.85)),
        (of(CriterionItem(BARE, target_option="warm"), TENTHS, normalize_scores=False), (0.05, 0.85)),
        (of(CriterionItem(SCALE, required=True), normalize_scores=False), (0.0, 5.0)),
    ],
)
def test_bounds_are_the_lowest_and_the_highest_score(judge: MultiCriteria, bounds: tuple[float, float]) -> None:
    assert judge.bounds == bounds


def test_details_hold_each_criterion() -> None:
    found = judged(of("conciseness", "Is it kind?"), conciseness="Yes", kind="No")
    assert found.details is not None and found.details["normalize_scores"] is True
    assert [*found.details["criteria"]] == ["conciseness", "criteria_2"]
    second = found.details["criteria"]["criteria_2"]
    assert (second["weight"], second["strategy"], second["weighted_score"]) == (0.5, "none", 0.0)
    assert (second["result"]["reason"], second["result"]["details"]["option"]) == ("so", "No")


def test_self_consistency_and_bias_hold_for_each_criterion() -> None:
    found = judged(of(SCALE, KIND, self_consistency=2, check_positional_bias=True), scale="5", kind="Yes")
    assert found.details is not None and found.details["criteria"]["kind"]["result"]["details"]["votes"] == {"Yes": 2}
    assert not found.details["criteria"]["scale"]["result"]["details"]["positional_bias"]["detected"]


def test_a_criterion_whose_order_decides_fails_the_whole() -> None:
    def reply(request: dict[str, Any]) -> dict[str, str]:
        prompt = request["messages"][-1]["content"]
        return {"reasoning": "so", "option": "No" if prompt.index('- "No"') < prompt.index('- "Yes"') else "Yes"}

    judge = of(KIND, check_positional_bias=True, on_bias="error")
    with testing.model("m", reply), pytest.raises(ModelError, match="order of the options decides") as failed:
        asyncio.run(judge(StringThread([("assistant", "x")])))
    assert failed.value.kind == "failed"
    assert failed.value.details is not None
    assert failed.value.details["criteria"]["kind"]["error"]["kind"] == "positional_bias"


@pytest.mark.parametrize("retryable", [True, False])
def test_one_failure_fails_the_whole_with_the_others_in_details(retryable: bool) -> None:
    away = ModelError("unreachable" if retryable else "refused", "it is so", retryable)
    with pytest.raises(ModelError, match="so the whole has none: kind: it is so") as failed:
        judged(of(SCALE, KIND), scale="5", kind=away)
    assert (failed.value.kind, failed.value.retryable) == (away.kind, retryable)
    assert failed.value.details is not None and failed.value.details["criteria"]["scale"]["score"] == 1.0
    assert failed.value.details["criteria"]["kind"]["error"]["kind"] == away.kind


WIDE = {"name": "wide", "description": "d", "options": [{"name": "a", "score": 1e308}, {"name": "b", "score": -1e308}]}
EVEN = {"name": "even", "description": "d", "options": [{"name": "a", "score": 1}, {"name": "b", "score": 1}]}


@pytest.mark.parametrize(
    ("items", "settings", "message"),
    [
        ([], {}, "list of criteria"),
        ("conciseness", {}, "list of criteria"),
        ([KIND, KIND], {}, "two criteria"),
        ([CriterionItem(KIND, 0.5), SCALE], {}, "some have none"),
        ([CriterionItem(KIND, 0.5), CriterionItem(SCALE, 0.4)], {}, "come to 0.9"),
        ([CriterionItem(KIND, 1.5), CriterionItem(SCALE, -0.5)], {}, "from 0 to 1"),
        ([CriterionItem(KIND, target_option="Yes", score_threshold=0.5)], {}, "give one of them"),
        ([CriterionItem(KIND, target_option="Maybe")], {}, "is none of"),
        ([CriterionItem(SCALE, score_threshold=3)], {}, "can never be passed"),
        ([BARE], {}, "no score"),
        ([EVEN], {}, "cannot be normalised"),
        ([WIDE], {}, "wider than a number holds"),
        ([{"criterion": "x y", "wieght": 1}], {}, "wieght"),
        ([CriterionItem(KIND, score_threshold=1)], {"normalize_scores": False}, "no option scores above 1"),
        ([f"Is it {number} long?" for number in range(7)], {"self_consistency": 10}, "ask 70 times"),
    ],
)
def test_what_would_falsify_a_score_or_ask_too_often_is_refused(
    items: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        MultiCriteria(items, "m", **settings)
