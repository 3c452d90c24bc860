"""Tests of the reduction of a batch's outcomes to a number."""

from typing import Any

import pytest

from gradebox import ScoreMissing
from gradebox.outcome import CompletionScore, Outcome, OutcomeError, with_completion_scores
from gradebox.reduction import reduced


def scored(*scores: float | None, grader: str = "g@1") -> list[Outcome]:
    return [
        Outcome(number, grader, score, 1.0, not_applicable="no" if score is None else None)
        for number, score in enumerate(scores)
    ]


def mean(scores: Any) -> float:
    return float(sum(scores) / len(scores))


def test_the_default_is_the_sum() -> None:
    found = reduced(scored(1, 0, 0.5), purpose="exact match")
    assert (found.score, found.scores, found.is_success, found.not_applicable) == (1.5, [1, 0, 0.5], None, 0)
    assert found.explanation == (
        "The evaluator for exact match scored 3 completions, all that it applies to. Their scores were brought "
        "together by summation: the final score is 1.5."
    )


def test_each_completion_of_a_group_counts() -> None:
    one, passed_over = CompletionScore(1.0), CompletionScore(None, not_applicable="no")
    whole = with_completion_scores(Outcome(0, "g@1", 1.0, 1.0), [one, one])
    partly = Outcome(1, "g@1", None, 1.0, not_applicable="1 of 2 completions have no score")
    partly = with_completion_scores(partly, [one, passed_over])
    found = reduced([whole, partly], purpose="p")
    assert (found.score, found.scores, found.not_applicable) == (3, [1, 1, 1], 1)
    failed = CompletionScore(None, error=OutcomeError("timeout", "too slow"))
    with pytest.raises(ScoreMissing, match="too slow"):
        reduced([with_completion_scores(Outcome(0, "g@1", None, 1.0, error=failed.error), [one, failed])], purpose="p")


def test_a_reduction_has_its_purpose() -> None:
    found = reduced(scored(1, 0), purpose="p", reduction_fn=mean, reduction_purpose="averaging")
    assert found.score == 0.5
    assert "by averaging: the final score is 0.5" in found.explanation
    nearly = reduced(scored(1, 0.9999998), purpose="p", reduction_fn=mean)
    assert nearly.explanation.endswith("the final score is 0.9999999.")


def test_without_a_reduction_the_scores_stay_apart() -> None:
    found = reduced(scored(1, 0), purpose="p", reduction_fn=None)
    assert (found.score, found.scores) == (None, [1, 0])


@pytest.mark.parametrize(("scores", "is_success"), [((1, 1), True), ((1, 0), False)])
def test_a_success_function_sees_all_scores(scores: tuple[float, ...], is_success: bool) -> None:
    assert reduced(scored(*scores), purpose="p", success_fn=all).is_success is is_success


@pytest.mark.parametrize("name", ["success_fn", "reduction_fn"])
@pytest.mark.filterwarnings("error")
def test_an_async_function_is_an_error(name: str) -> None:
    async def later(scores: Any) -> float:
        return 0.0

    with pytest.raises(ValueError, match=rf"{name}= takes .* at once"):
        reduced(scored(1), **{"purpose": "p", name: later})  # type: ignore[arg-type]


def test_what_does_not_apply_is_left_out_and_counted() -> None:
    found = reduced(scored(1, None, 0), purpose="p", reduction_fn=mean, reduction_purpose="averaging")
    assert (found.score, found.not_applicable, len(found.scores)) == (0.5, 1, 2)


def test_a_failed_row_is_no_part_of_a_number() -> None:
    failed = Outcome(1, "g@1", None, 1.0, error=OutcomeError("timeout", "too slow"))
    with pytest.raises(ScoreMissing, match="timeout: too slow"):
        reduced([*scored(1), failed], purpose="p")


@pytest.mark.parametrize(
    ("outcomes", "given", "message"),
    [
        (scored(1), {"purpose": ""}, "purpose="),
        (scored(1), {"reduction_purpose": " "}, "reduction_purpose="),
        ([], {}, "no score to reduce"),
        (scored(None), {}, "and 1 completions"),
        ([*scored(1), *scored(1, grader="h@1")], {}, "g@1, h@1"),
        (scored(1), {"reduction_fn": lambda _: float("nan")}, "returned nan"),
        (scored(1), {"reduction_fn": lambda _: None}, "returned None"),
    ],
)
def test_what_cannot_be_reduced_is_said(outcomes: list[Outcome], given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reduced(outcomes, **{"purpose": "p", **given})
