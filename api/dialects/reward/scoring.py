"""Scores requests on the path of `POST /score`. A completion without a score fails the whole call."""

from collections.abc import Sequence

import msgspec

from api import bodies
from api.callers import Caller
from api.dialects.reward.access import Target
from api.dialects.reward.wire import BatchedRequest, BatchedResponse, Request, Response, ServerInfo, line_of, response
from api.problems import RETRY, ProblemError, too_large
from api.proofs import THREADS
from api.score import score_lines
from api.services import Services
from api.surrogates import Hidden
from gradebox.outcome import Outcome

ERRORS = 100  # that a problem tells of


def score_one(caller: Caller, services: Services, target: Target, body: bytes) -> Response:
    """The reward of one completion. Raises ProblemError where it has none, and what `score_lines` raises."""
    request, hidden = bodies.parse(body, Request)
    return response(_scored(caller, services, target, [request], hidden)[0], request.id)


def score_many(caller: Caller, services: Services, target: Target, body: bytes) -> BatchedResponse:
    """The rewards of several completions, in order. Raises as `score_one` does where one of them has none."""
    batch, hidden = bodies.parse(body, BatchedRequest)
    outcomes = _scored(caller, services, target, batch.requests, hidden) if batch.requests else []
    return BatchedResponse(
        [response(outcome, request.id) for outcome, request in zip(outcomes, batch.requests, strict=True)]
    )


def info(services: Services, target: Target) -> ServerInfo:
    """What the grader is. Raises NotFound, and NotRunnable for one that could never score."""
    graders = services.store.graders
    number = graders.runnable(target.project, target.key).number
    grader = graders.get(target.project, target.key)
    return ServerInfo(str(number), grader.name, grader.description)


def _scored(
    caller: Caller, services: Services, target: Target, requests: Sequence[Request], hidden: Hidden
) -> list[Outcome]:
    if len(requests) > THREADS:
        raise too_large(f"these are {len(requests)} requests, and {THREADS} are taken at once: send fewer")
    _, outcomes = score_lines(caller, services, target.key, None, [line_of(request, hidden) for request in requests])
    if failed := [outcome for outcome in outcomes if outcome.error is not None]:
        raise _not_scored(failed, len(requests))
    return outcomes


def _not_scored(failed: Sequence[Outcome], requests: int) -> ProblemError:
    errors = [{"index": one.index, **msgspec.to_builtins(one.error)} for one in failed[:ERRORS]]
    first = errors[0]
    detail = f"request {first['index']} of {requests} has no score: {first['kind']}: {first['message']}"
    if len(failed) > 1:
        detail += f" ({len(failed)} have none)"
    if all(one["retryable"] for one in errors):
        return ProblemError(503, "not-scored", detail, RETRY, errors=errors)
    return ProblemError(422, "not-scored", detail, errors=errors)
