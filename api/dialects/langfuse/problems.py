"""Problems as each way of Langfuse's reads them."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from api.http.problems import AWAY, ProblemError, answer, note_away, problem_of
from storage.errors import StorageError


class _Exception(NamedTuple):
    """One of Lambda's exceptions. By its name alone Langfuse decides whether to try again."""

    name: str
    status: int


_DENIED = _Exception("AccessDeniedException", 403)
_INVALID = _Exception("InvalidParameterValueException", 400)
_BUSY = _Exception("TooManyRequestsException", 429)
_FAULT = _Exception("ServiceException", 500)
_EXCEPTIONS = {
    401: _DENIED,
    403: _DENIED,
    404: _Exception("ResourceNotFoundException", 404),
    408: _FAULT,
    413: _Exception("RequestTooLargeException", 413),
    429: _BUSY,
}


class LambdaRoute(APIRoute):
    """A route whose errors are Lambda's exceptions."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with its errors caught."""
        return _refusing(super().get_route_handler(), _exception)


class ExternalRoute(APIRoute):
    """A route whose errors are problems, of a status by which Langfuse tries again what may pass and nothing else."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with its errors caught."""
        return _refusing(super().get_route_handler(), _problem)


def _refusing(
    handle: Callable[[Request], Awaitable[Response]], refuse: Callable[[Request, ProblemError], Response]
) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    async def handled(request: Request) -> Response:
        try:
            return await handle(request)
        except (ProblemError, StorageError) as error:
            return refuse(request, problem_of(error))
        except AWAY as error:
            note_away(request, error)
            return refuse(request, problem_of(error))

    return handled


def _exception(_: Request, problem: ProblemError) -> Response:
    name, status = _EXCEPTIONS.get(problem.status, _FAULT if problem.status >= 500 else _INVALID)
    if problem.name == "busy":
        name, status = _BUSY
    body = {"Type": "Service" if status >= 500 else "User", "Message": problem.detail}
    return JSONResponse(body, status, {"X-Amzn-ErrorType": name, **(problem.headers or {})})


def _problem(request: Request, problem: ProblemError) -> Response:
    """Langfuse tries again after 409, 429, 500, 502, 503 and 504."""
    if problem.status == 413:
        return JSONResponse({"error": {"code": "PAYLOAD_TOO_LARGE", "message": problem.detail}})
    if problem.status == 408:  # the body came too slowly
        problem = ProblemError(503, problem.name, problem.detail, problem.headers)
    return answer(request, problem)
