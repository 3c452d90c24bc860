"""What the outcomes of a batch come to: one score by a reduction, with an explanation."""

from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import NamedTuple

from gradebox.errors import ScoreMissing
from gradebox.outcome import Outcome

_QUOTED_CHARACTERS = 200


class Evaluation(NamedTuple):
    """What the outcomes of one grader come to.

    Attributes:
        score: what the reduction made of the scores; None without one.
        explanation: how it came about, in words.
        scores: of each completion, in order, without those that the grader does not apply to.
        is_success: what the success function says of the scores; None without one. Where it is true, nothing is to be
            improved, and nobody needs to be asked what.
        not_applicable: to how many completions the grader does not apply.
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
    """One score of all outcomes of one grader.

    Args:
        outcomes: of a batch: `reduced(batch.outcomes(), purpose="…")`.
        purpose: what the grader is for, in words.
        reduction_fn: makes one number of all scores; None to keep them apart.
        reduction_purpose: what the reduction is, in words.
        success_fn: whether these scores are good enough.

    Raises:
        ScoreMissing: an outcome is an error. A sum without it would be another number.
        ValueError: a purpose is empty, there is no score, there are several graders, or the reduction gives no finite
            number.
    """
    purpose = _words(purpose, "purpose")
    reduction_purpose = _words(reduction_purpose, "reduction_purpose")
    scores, not_applicable = _scores(outcomes)
    compared = f"The evaluator for {purpose} scored {len(scores):,} completions, all that it applies to"
    success = None if success_fn is None else bool(success_fn(scores))
    if reduction_fn is None:
        return Evaluation(None, f"{compared}.", scores, success, not_applicable)
    score = reduction_fn(scores)
    if not isinstance(score, int | float) or not isfinite(score):
        raise ValueError(f"reduction_fn returned {score!r:.80}, and a score is a finite number")
    explanation = (
        f"{compared}. Their scores were brought together by {reduction_purpose}: the final score is {score:g}."
    )
    return Evaluation(float(score), explanation, scores, success, not_applicable)


def _scores(outcomes: Iterable[Outcome]) -> tuple[list[float], int]:
    scores: list[float] = []
    graders: set[str] = set()
    not_applicable = 0
    for outcome in outcomes:
        graders.add(outcome.grader)
        if outcome.not_applicable is not None:
            not_applicable += 1
        elif outcome.score is None:
            raise ScoreMissing(outcome)
        else:
            scores.append(outcome.score)
    if len(graders) > 1:
        raise ValueError(f"there are outcomes of {', '.join(sorted(graders))}: reduce those of one grader at a time")
    if not scores:
        raise ValueError(f"there is no score to reduce, and {not_applicable} completions that the grader left out")
    return scores, not_applicable


def _words(text: object, name: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name}= takes a text that says what it is for, and got {text!r:.80}")
    return text[:_QUOTED_CHARACTERS]
