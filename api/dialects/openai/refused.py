"""Errors in the form that the openai client parses: `{"error": {"message", "type", "param", "code"}}`."""

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from api.http.problems import AWAY, ProblemError, problem_of
from api.http.request_id import request_id
from storage.errors import StorageError

_CODES = {"unauthorized": "invalid_api_key", "forbidden": "insufficient_permissions"}
_BAD_REQUEST = 400

_log = logging.getLogger(__name__)


class OpenAIProblem(ProblemError):
    """An invalid request. `param` is the path of the invalid part, such as `grader.source`."""

    def __init__(self, message: str, param: str | None = None, code: str = "invalid-grader") -> None:
        super().__init__(_BAD_REQUEST, code, message)
        self.param = param


class OpenAIRoute(APIRoute):
    """A route that returns its errors, including those of its dependencies, in this form."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, wrapped to catch errors."""
        handle = super().get_route_handler()

        async def handle_or_refuse(request: Request) -> Response:
            try:
                return await handle(request)
            except (ProblemError, StorageError) as error:
                return _answer(problem_of(error))
            except AWAY as error:
                _log.error(
                    "request %s failed: a part of the service is unavailable", request_id(request.scope), exc_info=error
                )
                return _answer(problem_of(error))

        return handle_or_refuse


def _answer(problem: ProblemError) -> Response:
    # The client retries 408, 409, 429 and 5xx. A 422 becomes a 400: an invalid request stays invalid.
    status = _BAD_REQUEST if problem.status == 422 else problem.status
    error = {
        "message": problem.detail,
        "type": "server_error" if status >= 500 else "invalid_request_error",
        "param": getattr(problem, "param", None),
        "code": _CODES.get(problem.name, problem.name.replace("-", "_")),
    }
    return JSONResponse({"error": error}, status, problem.headers)
