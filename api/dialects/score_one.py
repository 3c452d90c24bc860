"""The score of one thread, for protocols that can represent a missing score only as an error."""

from typing import Any

import msgspec

from api.access.callers import Caller
from api.http.problems import RETRY, ProblemError
from api.intake.batch_upload import GraderOf
from api.routes.score import score_lines
from api.services import Services
from gradebox.outcome import Outcome


def score_one(caller: Caller, services: Services, grader: GraderOf, line: bytes) -> Outcome:
    """Returns an outcome that has a score. Raises what `score_lines` raises, and ProblemError if there is no score."""
    _, (outcome,) = score_lines(caller, services, grader.key, grader.version, [line])
    if outcome.score is None:
        raise _not_scored(outcome)
    if outcome.no_completion:
        raise ProblemError(422, "not-scored", "there is no completion: the last message is not the assistant's")
    return outcome


def _not_scored(outcome: Outcome) -> ProblemError:
    if outcome.error is None:
        detail = f"the grader does not apply to this: {outcome.not_applicable}"
        return ProblemError(422, "not-scored", detail, not_applicable=outcome.not_applicable or "")
    error: dict[str, Any] = msgspec.to_builtins(outcome.error)
    detail = f"there is no score: {outcome.error.kind}: {outcome.error.message}"
    if outcome.error.retryable:
        return ProblemError(503, "not-scored", detail, RETRY, error=error)
    return ProblemError(422, "not-scored", detail, error=error)
