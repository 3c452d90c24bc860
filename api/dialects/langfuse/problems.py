"""Formats problems for both of Langfuse's protocols."""

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from api.dialects.error_route import ErrorRoute
from api.http.problems import ProblemError, answer

EXECUTE = "/execute"  # the end of the external dispatcher's path
_AGAIN = (409, 429, 500, 502, 503, 504)  # the statuses on which the external dispatcher retries


# Name and status of Lambda's exceptions, by the status of a problem. Langfuse decides by the name whether to retry.
_DENIED, _FAULT = ("AccessDeniedException", 403), ("ServiceException", 500)
_EXCEPTIONS = {
    400: ("InvalidParameterValueException", 400),
    401: _DENIED,
    403: _DENIED,
    404: ("ResourceNotFoundException", 404),
    408: _FAULT,
    413: ("RequestTooLargeException", 413),
    429: ("TooManyRequestsException", 429),
    500: _FAULT,
}


class LangfuseRoute(ErrorRoute):
    """A route whose errors have the form that makes Langfuse retry temporary ones only: Lambda's exceptions, or a
    problem's status.
    """

    def refused(self, request: Request, problem: ProblemError) -> Response:
        """Returns the response for a problem."""
        return _problem(request, problem) if self.path.endswith(EXECUTE) else _exception(problem)


def _exception(problem: ProblemError) -> Response:
    found = 429 if problem.name == "busy" else problem.status
    name, status = _EXCEPTIONS.get(found) or _EXCEPTIONS[500 if found >= 500 else 400]
    body = {"Type": "Service" if status >= 500 else "User", "Message": problem.detail}
    return JSONResponse(body, status, {"X-Amzn-ErrorType": name, **(problem.headers or {})})


def _problem(request: Request, problem: ProblemError) -> Response:
    if problem.status == 413:
        return JSONResponse({"error": {"code": "PAYLOAD_TOO_LARGE", "message": problem.detail}})
    passes = problem.status >= 500 or problem.status == 408  # 408: the body came too slowly
    if passes and problem.status not in _AGAIN:
        problem = ProblemError(503, problem.name, problem.detail, problem.headers)
    return answer(request, problem)
