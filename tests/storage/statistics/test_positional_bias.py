"""Tests of counting the decisions that judges report, whatever `on_bias` is."""

import asyncio
from typing import Any

import pytest

from gradebox import ModelError, Score, StringThread, testing
from gradebox.judges import DirectJudge, PairwiseJudge
from gradebox.outcome import CompletionScore, Outcome, OutcomeError, with_completion_scores
from storage.statistics.positional_bias import decisions


def thread(text: str) -> StringThread:
    return StringThread([("user", "q"), ("assistant", text)])


def score_of(found: Score | Exception) -> CompletionScore:
    """What a sandbox makes of a score, or of an error of kind `model`."""
    if isinstance(found, ModelError):
        return CompletionScore(None, error=OutcomeError("model", found.message), details=found.details)
    assert isinstance(found, Score)
    return CompletionScore(float(found), details=dict(found.details or {}))


def outcome_of(judge: DirectJudge, text: str) -> Outcome:
    try:
        found = score_of(asyncio.run(judge(thread(text))))
    except ModelError as error:
        found = score_of(error)
    return Outcome(0, "g@1", found.score, 1.0, error=found.error, details=found.details)


def is_reversed(request: dict[str, Any]) -> bool:
    prompt = request["messages"][-1]["content"]
    return bool(prompt.index('- "No"') < prompt.index('- "Yes"'))


@pytest.mark.parametrize("on_bias", ["keep", "tie", "error"])
def test_decisions_of_a_direct_judge_are_counted(on_bias: Any) -> None:
    def reply(request: dict[str, Any]) -> dict[str, Any]:
        is_hard = "HARD" in request["messages"][-1]["content"]
        return {"reasoning": "r", "option": "No" if is_hard and is_reversed(request) else "Yes"}

    judge = DirectJudge("Is it kind?", "m", check_positional_bias=True, on_bias=on_bias)
    with testing.model("m", reply):
        found = [outcome_of(judge, "HARD" if number < 3 else "easy") for number in range(10)]
    counted = [decided for outcome in found for decided in decisions(outcome)]
    assert (len(counted), sum(counted)) == (10, 3)
    assert [outcome.score is None for outcome in found] == [on_bias == "error"] * 3 + [False] * 7


@pytest.mark.parametrize("on_bias", ["keep", "tie", "error"])
@pytest.mark.parametrize("texts", [("HARD", "b", "c"), ("b", "c", "HARD"), ("b", "HARD", "c")])
def test_contests_are_counted(on_bias: Any, texts: tuple[str, ...]) -> None:
    def reply(request: dict[str, Any]) -> dict[str, Any]:
        prompt = request["messages"][-1]["content"]
        is_first = "HARD" in prompt or prompt.index("\nb\n") < prompt.index("\nc\n")
        return {"reasoning": "r", "option": f"response {1 if is_first else 2}"}

    judge = PairwiseJudge("Is it kind?", "m", check_positional_bias=True, on_bias=on_bias)
    with testing.model("m", reply):
        scores = [score_of(each) for each in asyncio.run(judge([thread(text) for text in texts]))]
    counted = [*decisions(with_completion_scores(Outcome(0, "g@1", None, 1.0), scores))]
    assert (len(counted), sum(counted)) == (3, 2)


def test_a_contest_whose_asks_failed_hides_no_other() -> None:
    """With "a" against "b" without a result, the other two contests of three are decided in both orders."""

    def reply(request: dict[str, Any]) -> dict[str, Any] | ModelError:
        prompt = request["messages"][-1]["content"]
        if "\na\n" in prompt and "\nb\n" in prompt:
            return ModelError("unreachable", "it is away")
        return {"reasoning": "r", "option": "response 1"}

    judge = PairwiseJudge("Is it kind?", "m", check_positional_bias=True)
    with testing.model("m", reply):
        scores = [score_of(each) for each in asyncio.run(judge([thread(text) for text in "abc"]))]
    assert [score.score is None for score in scores] == [True, True, False]
    assert [*decisions(with_completion_scores(Outcome(0, "g@1", None, 1.0), scores))] == [True, True]


def test_a_contest_counts_where_its_first_participant_reports_nothing() -> None:
    contests = [None, [{"against": [1], "biased": True}, {"against": [3], "biased": False}]]
    contests.append([{"against": [1], "biased": True}, {"against": [2], "biased": False}])
    scores = [CompletionScore(0.5, details=None if each is None else {"contests": each}) for each in contests]
    assert [*decisions(with_completion_scores(Outcome(0, "g@1", None, 1.0), scores))] == [True, False, True]


@pytest.mark.parametrize("samples", [["yes", None, True], [True]])
def test_what_is_no_decision_is_not_counted(samples: list[object]) -> None:
    details = {"positional_bias": {"detected": False, "samples": samples}}
    assert [*decisions(Outcome(0, "g@1", 1.0, 1.0, details=details))] == [True]
