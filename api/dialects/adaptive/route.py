"""`/api/graphql`. Errors also have the status 200 if possible, because the SDK shows nothing but the number of another
status.

The schema is created on the first request: together with its executor it takes 17 MB, and most services never use it.
"""

import logging
import re
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from fastapi import APIRouter, Request, Response

from api.access.auth import identify, secret_of
from api.access.callers import Caller, WaitingClient
from api.access.tenants import tenant_of
from api.dialects.adaptive.query_context import ANSWER_BYTES, TOO_LONG, QueryContext, size_of
from api.http.problems import HANDLED, ProblemError, invalid, problem_of, too_large
from api.http.request_id import request_id
from api.intake import bodies
from api.services import Served, Services
from gradebox.schemas import ApiKey

if TYPE_CHECKING:
    from graphql import GraphQLError
    from strawberry.types import ExecutionResult

BODY_BYTES = bodies.MIB
MESSAGE_CHARACTERS = 20_000  # longer than a failed check with its traceback

_TAKES_LONG = re.compile(r"validateFunctionGrader|createGrader|updateGrader|testRemoteEnv")  # searched in the query

router = APIRouter(prefix="/api/graphql", tags=["adaptive"])
_log = logging.getLogger(__name__)


class Operation(msgspec.Struct):
    """A GraphQL request."""

    query: Annotated[str, msgspec.Meta(min_length=1)]
    variables: dict[str, Any] | None = None
    operation_name: str | None = msgspec.field(default=None, name="operationName")


@router.post("", include_in_schema=False)
async def graphql(request: Request, services: Served) -> Response:
    """Execute one operation of adaptive-sdk, in a thread."""
    number = request_id(request.scope)
    try:
        key = await identify(request, services, secret_of(request))
        body = await bodies.read_as_json(request, BODY_BYTES)
        asked, takes_long = await bodies.worked_on(len(body), _read, body)
        if takes_long:
            answer = await services.grade(request, tenant_of(request.scope), _answer, services, key, asked, number)
        else:
            caller = Caller(WaitingClient(), "", services.limits_for(request), 0.0)
            make = services.large_answers.make
            answer = await make(request, _answer, caller, services, key, asked, number)
    except HANDLED as error:
        answer = msgspec.json.encode({"data": None, "errors": [_shown(number, error)]})
    return Response(answer, media_type="application/json")


def _read(body: bytes) -> tuple[Operation, bool]:
    """Returns the operation, and whether it may wait for a sandbox or an external host."""
    asked = bodies.decode(body, Operation)
    return asked, _TAKES_LONG.search(asked.query) is not None


def _answer(caller: Caller, services: Services, key: ApiKey, asked: Operation, number: str) -> bytes:
    """The response as JSON. Raises ProblemError if it is too long, and what `_execute` raises."""
    result = _execute(asked, QueryContext(services, key, caller))
    body: dict[str, Any] = {"data": result.data}
    if result.errors:
        body["errors"] = [_formatted(number, error) for error in result.errors]
    if size_of(body) > ANSWER_BYTES:  # a query may alias the same field several times
        raise too_large(TOO_LONG)
    return msgspec.json.encode(body)


def _execute(asked: Operation, context: QueryContext) -> "ExecutionResult":
    from strawberry.schema.exceptions import CannotGetOperationTypeError
    from strawberry.types import ExecutionResult

    from api.dialects.adaptive.schema import SCHEMA

    name = asked.operation_name
    try:
        result = SCHEMA.execute_sync(asked.query, asked.variables, context_value=context, operation_name=name)
    except CannotGetOperationTypeError as error:
        raise invalid(f"the query has no operation {name!r}" if name else "the query has no operation") from error
    assert isinstance(result, ExecutionResult)
    return result


def _formatted(number: str, error: "GraphQLError") -> dict[str, Any]:
    """Formats an error. GraphQL's own errors are unchanged; those of our code contain only what may be shown."""
    from graphql import GraphQLError

    cause = error.original_error
    while isinstance(cause, GraphQLError):
        cause = cause.original_error
    formatted: dict[str, Any] = {**error.formatted}
    if isinstance(cause, RecursionError):
        cause = invalid("the query is nested too deep: ask for less at once")
    if isinstance(cause, Exception) and (error.path is not None or isinstance(cause, ProblemError)):
        formatted |= _shown(number, cause)
    formatted["message"] = formatted["message"][:MESSAGE_CHARACTERS]
    return formatted


def _shown(number: str, error: Exception) -> dict[str, Any]:
    problem = problem_of(error)
    if problem.status >= 500:
        _log.error("request %s failed unexpectedly", number, exc_info=error)
    extensions = {"type": f"urn:gradebox:problem:{problem.name}", "request_id": number}
    return {"message": problem.detail, "extensions": {**extensions, **problem.members}}
