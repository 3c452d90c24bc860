"""`/langfuse/v1`: Lambda's Invoke at its place below it, and `/execute` for Langfuse's external dispatcher."""

from time import monotonic
from typing import Annotated

from anyio import fail_after
from fastapi import APIRouter, Header, Request, Response

from api.access.callers import Caller
from api.dialects.langfuse.access import Fault, admit, aws_fault, bearer_fault, signature_fault
from api.dialects.langfuse.evaluation import evaluate
from api.dialects.langfuse.problems import ExternalRoute, LambdaRoute
from api.dialects.langfuse.request import BODY_BYTES
from api.dialects.langfuse.request import Request as Evaluation
from api.http.problems import RETRY, ProblemError, invalid
from api.intake import bodies
from api.services import Served, Services

ANSWER_S = 9.0
"""Langfuse waits 10 s, from the first byte of its request to the last of the answer."""
_LAST_S = 0.5  # of that, for what comes after the sandbox

_INVOKE = "/2015-03-31/functions/{name}/invocations"

router = APIRouter()
_lambda = APIRouter(prefix="/langfuse/v1", route_class=LambdaRoute, include_in_schema=False)
_external = APIRouter(prefix="/langfuse/v1", route_class=ExternalRoute, include_in_schema=False)


@_lambda.post(_INVOKE)
@_lambda.post(f"/{_INVOKE}")  # what the SDK makes of an endpoint that ends in a slash
async def invoke(
    request: Request, services: Served, name: str, x_amz_invocation_type: Annotated[str, Header()] = "RequestResponse"
) -> Response:
    """Evaluates one observation. The function's name means nothing: the body says the language."""
    if x_amz_invocation_type != "RequestResponse":
        raise invalid(f"an invocation of type {x_amz_invocation_type[:40]!r} has no answer: send RequestResponse")
    return await _answer(request, services, aws_fault)


@_external.post("/execute")
async def execute(request: Request, services: Served) -> Response:
    """Evaluates one observation."""
    is_signed = services.settings.langfuse_external == "signature"
    return await _answer(request, services, signature_fault if is_signed else bearer_fault)


async def _answer(request: Request, services: Services, fault_of: Fault) -> Response:
    ends = monotonic() + ANSWER_S
    try:
        with fail_after(ANSWER_S):
            body = await bodies.read(request, BODY_BYTES)
            await admit(request, services, body, fault_of)
            sent = await bodies.worked_on(len(body), bodies.parse, body, Evaluation)
            answer = await services.grade(request, sent.scope.tenant, _evaluate, services, sent, ends - _LAST_S)
    except TimeoutError as error:
        detail = f"there was no answer within {ANSWER_S:g} s, and Langfuse waits for no more than 10: try again"
        raise ProblemError(503, "busy", detail, RETRY) from error
    return Response(answer, media_type="application/json")


def _evaluate(caller: Caller, services: Services, sent: Evaluation, ends: float) -> bytes:
    return evaluate(caller.until(ends), services, sent)


router.include_router(_lambda)
router.include_router(_external)
