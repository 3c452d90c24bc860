"""Scores requests like `POST /score`. If one completion has no score, the whole call fails."""

from collections.abc import Sequence
from typing import Any

import msgspec

from api.access.callers import Caller
from api.dialects.reward.access import Target
from api.dialects.reward.wire import BatchedRequest, BatchedResponse, Request, ServerInfo, line_of, response
from api.http.problems import RETRY, ProblemError
from api.intake import bodies
from api.routes.score import score_lines
from api.services import Services
from gradebox.outcome import Outcome

ERRORS = 100  # the most errors in a problem
NOT_APPLICABLE = "not_applicable"  # in place of an error's kind


def score_one(caller: Caller, services: Services, target: Target, body: bytes) -> bytes:
    """Returns the reward of a completion as JSON. Raises ProblemError if it has none, and what `score_lines` raises."""
    request = bodies.parse(body, Request)
    return msgspec.json.encode(response(_scored(caller, services, target, [request])[0], request.id))


def score_many(caller: Caller, services: Services, target: Target, body: bytes) -> bytes:
    """Returns the rewards of several completions, in order, as JSON. Raises as `score_one` does if one of them has
    none.
    """
    batch = bodies.parse(body, BatchedRequest)
    most = caller.limits.score_threads
    sent = bodies.elements(batch.requests, most, services.line_bytes, "requests", "send fewer at once")
    requests = [bodies.parse(request, Request) for request in sent]
    outcomes = _scored(caller, services, target, requests) if requests else []
    answers = [response(outcome, request.id) for outcome, request in zip(outcomes, requests, strict=True)]
    return msgspec.json.encode(BatchedResponse(answers))


def info(services: Services, target: Target) -> ServerInfo:
    """The description of the grader. Raises NotFound, and NotRunnable if it can never score."""
    graders = services.store.graders
    number = graders.runnable(target.project, target.key).number
    grader = graders.get(target.project, target.key)
    return ServerInfo(str(number), grader.name, grader.description)


def _scored(caller: Caller, services: Services, target: Target, requests: Sequence[Request]) -> list[Outcome]:
    lines = [line_of(request, services.line_bytes) for request in requests]
    _, outcomes = score_lines(caller, services, target.key, None, lines)
    if failed := [outcome for outcome in outcomes if outcome.score is None]:
        raise _not_scored(failed, len(requests))
    return outcomes


def _not_scored(failed: Sequence[Outcome], requests: int) -> ProblemError:
    errors = [_why(one) for one in failed[:ERRORS]]
    first = errors[0]
    detail = f"request {first['index']} of {requests} has no score: {first['kind']}: {first['message']}"
    if len(failed) > 1:
        detail += f" ({len(failed)} have none)"
    if all(one["retryable"] for one in errors):
        return ProblemError(503, "not-scored", detail, RETRY, errors=errors)
    return ProblemError(422, "not-scored", detail, errors=errors)


def _why(outcome: Outcome) -> dict[str, Any]:
    if outcome.error is None:
        told = {"kind": NOT_APPLICABLE, "message": outcome.not_applicable or "", "retryable": False}
    else:
        told = msgspec.to_builtins(outcome.error)
    return {"index": outcome.index, **told}
