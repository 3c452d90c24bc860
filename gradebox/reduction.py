"""Reduces the outcomes of a batch to one score, with an explanation."""

from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import NamedTuple

from gradebox.errors import ScoreMissing
from gradebox.number_text import number_text
from gradebox.outcome import Outcome, completion_scores
from gradebox.sync_call import sync_call

_QUOTED_CHARACTERS = 200


class Evaluation(NamedTuple):
    """The reduced outcomes of one grader.

    Attributes:
        score: the result of the reduction; None without a reduction.
        explanation: how the score was computed, in words.
        scores: of each completion, in order, without those that the grader does not apply to.
        is_success: the result of the success function; None without one. If it is true, there is nothing to improve and
            no need to ask for feedback.
        not_applicable: number of completions that the grader does not apply to.
    """

    score: float | None
    explanation: str
    scores: list[float]
    is_success: bool | None
    not_applicable: int


def reduced(
    outcomes: Iterable[Outcome],
    *,
    purpose: str,
    reduction_fn: Callable[[Sequence[float]], float] | None = sum,
    reduction_purpose: str = "summation",
    success_fn: Callable[[Sequence[float]], object] | None = None,
) -> Evaluation:
    """Reduce all outcomes of one grader to one score.

    Args:
        outcomes: of a batch: `reduced(batch.outcomes(), purpose="…")`. Of a group, each completion counts.
        purpose: what the grader evaluates, in words.
        reduction_fn: computes one number from all scores; None to keep them separate.
        reduction_purpose: a description of the reduction, in words.
        success_fn: returns whether these scores are good enough.

    Raises:
        ScoreMissing: an outcome is an error. A sum without it would be wrong.
        ValueError: a purpose is empty, there is no score, the outcomes are of several graders, the reduction does not
            return a finite number, or a function is async.
    """
    purpose = _words(purpose, "purpose")
    reduction_purpose = _words(reduction_purpose, "reduction_purpose")
    scores, not_applicable = _scores(outcomes)
    compared = f"The evaluator for {purpose} scored {len(scores):,} completions, all that it applies to"
    success = None if success_fn is None else bool(sync_call("success_fn=", success_fn, scores))
    if reduction_fn is None:
        return Evaluation(None, f"{compared}.", scores, success, not_applicable)
    score = sync_call("reduction_fn=", reduction_fn, scores)
    if not isinstance(score, int | float) or not isfinite(score):
        raise ValueError(f"reduction_fn returned {score!r:.80}, and a score is a finite number")
    explanation = (
        f"{compared}. Their scores were brought together by {reduction_purpose}: the final score is "
        f"{number_text(score)}."
    )
    return Evaluation(float(score), explanation, scores, success, not_applicable)


def _scores(outcomes: Iterable[Outcome]) -> tuple[list[float], int]:
    scores: list[float] = []
    graders: set[str] = set()
    not_applicable = 0
    for outcome in outcomes:
        graders.add(outcome.grader)
        for each in (outcome,) if outcome.scores is None else completion_scores(outcome):
            if each.not_applicable is not None:
                not_applicable += 1
            elif each.score is None:
                raise ScoreMissing(outcome)
            else:
                scores.append(each.score)
    if len(graders) > 1:
        raise ValueError(f"there are outcomes of {', '.join(sorted(graders))}: reduce those of one grader at a time")
    if not scores:
        raise ValueError(f"there is no score to reduce, and {not_applicable} completions that the grader left out")
    return scores, not_applicable


def _words(text: object, name: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name}= takes a text that says what it is for, and got {text!r:.80}")
    return text[:_QUOTED_CHARACTERS]
