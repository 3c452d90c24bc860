"""`/langfuse/v1`: Lambda's Invoke below it, and `/execute` for Langfuse's external dispatcher."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from api.dialects.langfuse.access import read_external, read_signed
from api.dialects.langfuse.evaluation import evaluate
from api.dialects.langfuse.problems import EXECUTE, LangfuseRoute
from api.dialects.langfuse.request import EvaluationRequest
from api.dialects.time_limit import in_time
from api.http.problems import ProblemError, invalid
from api.intake import bodies
from api.services import Served, Services

ANSWER_S = 9.0
"""Less than the 10 s that Langfuse waits, from the first byte of its request to the last byte of the response."""
LAST_S = 1.5
"""The part of ANSWER_S reserved for what follows the sandbox: on a busy machine, killing one takes a while."""

_BELOW = "/langfuse/v1"
_INVOKE = "/2015-03-31/functions/{name}/invocations"

Read = Callable[[Request, Services], Awaitable[bytes]]

router = APIRouter(route_class=LangfuseRoute, include_in_schema=False)


@router.post(_BELOW + _INVOKE)
@router.post(f"{_BELOW}/{_INVOKE}")  # the path that the SDK derives from an endpoint with a trailing slash
async def invoke(
    request: Request, services: Served, name: str, x_amz_invocation_type: Annotated[str, Header()] = "RequestResponse"
) -> Response:
    """Evaluate one observation. The function's name is ignored, because the body contains the language."""
    if x_amz_invocation_type != "RequestResponse":
        raise invalid(f"an invocation of type {x_amz_invocation_type[:40]!r} is not supported: send RequestResponse")
    return await _answer(request, services, read_signed)


@router.post(_BELOW + EXECUTE)
async def execute(request: Request, services: Served) -> Response:
    """Evaluate one observation."""
    return await _answer(request, services, read_external)


@router.post(_INVOKE)
@router.post(f"/langfuse{_INVOKE}")
async def misplaced(name: str) -> Response:
    """Reject an endpoint set to another URL of this service. Without an exception's name, Langfuse would retry."""
    raise ProblemError(404, "not-found", f"there is no executor at this path: the endpoint must end in {_BELOW}")


async def _answer(request: Request, services: Services, read: Read) -> Response:
    async with in_time(ANSWER_S, LAST_S) as ends:
        body = await read(request, services)
        sent = await bodies.worked_on(len(body), bodies.parse, body, EvaluationRequest)
        answer = await services.grade(request, sent.scope.tenant, evaluate, services, sent, ends)
    return Response(answer, media_type="application/json")
