"""One outcome from those of several graders for the same thread."""

from collections.abc import Sequence
from math import isfinite

from gradebox.outcome import (
    CompletionScore,
    Outcome,
    OutcomeError,
    completion_scores,
    weighted_sum,
    with_completion_scores,
)

COMBINED = "combined"
"""The `grader` of the combined outcomes of a batch of several graders with weights."""

_NOT_FINITE = "the weighted sum of the scores is not finite: give the graders smaller weights"
_Result = Outcome | CompletionScore


def combined(name: str, weights: Sequence[float], parts: Sequence[Outcome]) -> Outcome:
    """Return the outcome of grader `name`, from those of several graders for one thread, in the order of `weights`.

    Its score is the weighted sum of theirs. If a grader gave no score, it has none: its error is that of the first
    grader with an error; if no grader has one, it is not applicable. A sum that is not finite is an error too. For a
    group, each completion is combined, and the score is the weighted sum of the graders' means.
    """
    graders = [part.grader for part in parts]
    whole = _completion(graders, weights, parts)
    outcome = Outcome(
        parts[0].index,
        name,
        whole.score,
        round(sum([part.run_ms for part in parts]), 3),
        parts[0].id,
        error=whole.error,
        no_completion=parts[0].no_completion,
        not_applicable=whole.not_applicable,
    )
    if None in [part.scores for part in parts]:
        return outcome
    of_completions = zip(*map(completion_scores, parts), strict=True)
    return with_completion_scores(outcome, [_completion(graders, weights, each) for each in of_completions])


def _completion(graders: Sequence[str], weights: Sequence[float], parts: Sequence[_Result]) -> CompletionScore:
    """Combine the results of these graders."""
    total = weighted_sum(zip(weights, [part.score for part in parts], strict=True))
    if total is not None:
        if isfinite(total):
            return CompletionScore(total)
        return CompletionScore(None, error=OutcomeError("bad_return", _NOT_FINITE))
    error = _error(graders, parts)
    passed_over = [f"{label}: {part.not_applicable}" for label, part in _without(graders, parts)]
    return CompletionScore(None, error=error, not_applicable=None if error is not None else "\n".join(passed_over))


def _without(graders: Sequence[str], parts: Sequence[_Result]) -> list[tuple[str, _Result]]:
    return [(label, part) for label, part in zip(graders, parts, strict=True) if part.not_applicable is not None]


def _error(graders: Sequence[str], parts: Sequence[_Result]) -> OutcomeError | None:
    """Return the first error, with the name of its grader. It is retryable if a retry may give each missing score."""
    failed = [(label, part.error) for label, part in zip(graders, parts, strict=True) if part.error is not None]
    if not failed:
        return None
    label, first = failed[0]
    retryable = not _without(graders, parts) and all(error.retryable for _, error in failed)
    return OutcomeError(first.kind, f"{label}: {first.message}", retryable, first.cause, first.reply)
