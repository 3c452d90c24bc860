"""Errors in the form that the openai client parses: `{"error": {"message", "type", "param", "code"}}`."""

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from api.dialects.error_route import ErrorRoute
from api.http.problems import ProblemError

_CODES = {"unauthorized": "invalid_api_key", "forbidden": "insufficient_permissions"}
_BAD_REQUEST = 400


class OpenAIProblem(ProblemError):
    """An invalid request. `param` is the path of the invalid part, such as `grader.source`."""

    def __init__(self, message: str, param: str | None = None, code: str = "invalid-grader") -> None:
        super().__init__(_BAD_REQUEST, code, message)
        self.param = param


class OpenAIRoute(ErrorRoute):
    """A route that returns its errors in this form."""

    def refused(self, request: Request, problem: ProblemError) -> Response:
        """Returns the response for a problem."""
        # The client retries 408, 409, 429 and 5xx. A 422 becomes a 400: an invalid request stays invalid.
        status = _BAD_REQUEST if problem.status == 422 else problem.status
        error = {
            "message": problem.detail,
            "type": "server_error" if status >= 500 else "invalid_request_error",
            "param": getattr(problem, "param", None),
            "code": _CODES.get(problem.name, problem.name.replace("-", "_")),
        }
        return JSONResponse({"error": error}, status, problem.headers)
