"""All errors of the API, as problem details (RFC 9457). docs/http.md lists the types."""

import logging
from http import HTTPStatus
from typing import Any, NoReturn

import msgspec
from anyio.to_thread import run_sync
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.requests import HTTPConnection
from fastapi.responses import Response
from redis.exceptions import RedisError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.websockets import WebSocketDisconnect
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.protocols.utils import ClientDisconnected

from api.http.request_id import HEADER, request_id
from api.settings import Dialect
from api.telemetry.requests import route_template
from gradebox.schemas import Report
from sandbox.errors import Busy, SandboxError, Stopped, Unusable
from storage.connection import is_full
from storage.errors import (
    Conflict,
    KeyNeeded,
    KeyReused,
    Locked,
    NotFound,
    NotRunnable,
    OutcomesLost,
    PayloadLost,
    QueueFull,
    QuotaExceeded,
    Refused,
    StorageError,
    TooLarge,
    VersionChanged,
)
from storage.models.secret_key import SecretKeyError
from storage.spool import spool

MEDIA_TYPE = "application/problem+json"
RETRY = {"Retry-After": "1"}
FULL_RETRY_S = "30"
QUEUE_RETRY_S = "5"  # a chunk of most graders takes less
AWAY = (RedisError, SandboxError, OSError)
"""A part of the service is unavailable."""

_log = logging.getLogger(__name__)
_STORAGE = {
    NotFound: (404, "not-found"),
    PayloadLost: (404, "not-found"),
    OutcomesLost: (410, "outcomes-lost"),
    Locked: (409, "locked"),
    NotRunnable: (409, "not-runnable"),
    KeyNeeded: (409, "api-key-needed"),
    Conflict: (409, "conflict"),
    VersionChanged: (412, "version-changed"),
    KeyReused: (422, "idempotency-key-reused"),
    TooLarge: (413, "too-large"),
    QueueFull: (429, "queue-full"),
    QuotaExceeded: (429, "quota-exceeded"),
    Refused: (422, "invalid-request"),
    SecretKeyError: (503, "unavailable"),
}
# Of RFC 9110. Python before 3.13 has older names of these.
_TITLES = {413: "Content Too Large", 414: "URI Too Long", 416: "Range Not Satisfiable", 422: "Unprocessable Content"}
_METHOD = "this path does not support this method: /docs lists those that it supports"
_NOTHING = (
    "there is nothing at this path. gradebox's client takes the service's URL without /v1: /docs lists the paths below "
    "it, and docs/ has the base URLs of other clients"
)
_BASES: dict[Dialect, tuple[str, set[str]]] = {
    "adaptive": ("this service, without a path", {"graphql"}),
    "langfuse": ("…/langfuse/v1", {"langfuse", "invocations", "execute"}),
    "openai": ("…/openai/v1", {"openai", "fine_tuning"}),
    "promptfoo": ("…/promptfoo/v1/{project}/{grader}", {"promptfoo"}),
    "reward": ("…/reward/{project}/{grader}", {"reward", "batch_score", "metadata_schema"}),
    "weave": ("…/weave/v1/{project}/{grader}", {"weave"}),
}
"""The base URL that the clients of an interface take, and parts of paths that only these clients request."""


class ProblemError(Exception):
    """A refused request. `members` are extra members of the problem, such as the report of a validation."""

    def __init__(
        self, status: int, name: str, detail: str, headers: dict[str, str] | None = None, **members: object
    ) -> None:
        self.status = status
        self.name = name
        self.detail = detail
        self.headers = headers
        self.members = members
        super().__init__(detail)


HANDLED = (ProblemError, StorageError, *AWAY)
"""What becomes a problem and is no bug."""


def invalid(detail: str) -> ProblemError:
    """A 422 problem: the request is invalid."""
    return ProblemError(422, "invalid-request", detail)


def too_large(detail: str) -> ProblemError:
    """A 413 problem: a limit, named in `detail`, is exceeded."""
    return ProblemError(413, "too-large", detail)


class ValidationFailed(ProblemError):
    """A check failed, and nothing was saved. To be made in a thread, because the report is encoded then."""

    def __init__(self, report: Report) -> None:
        self.report = report
        failed = report.failed
        what = f"check {failed.name!r} failed: {failed.message}" if failed else "a check failed"
        detail = f"{what.rstrip('.')}. Nothing was saved."
        super().__init__(422, "validation-failed", detail, report=msgspec.Raw(report_json(report)))


def report_json(report: Report) -> bytes:
    """A report as JSON. With the outcomes of a thousand threads, Pydantic would hold the interpreter for a second."""
    members = report.model_dump(mode="json", exclude={"outcomes"})
    return msgspec.json.encode({**members, "outcomes": report.outcomes})


def answer(request: HTTPConnection, problem: ProblemError) -> Response:
    """The response for a problem."""
    number = request_id(request.scope)
    headers = {HEADER: number, **(problem.headers or {})}
    return Response(msgspec.json.encode(members_of(problem, number)), problem.status, headers, MEDIA_TYPE)


def members_of(problem: ProblemError, number: str = "") -> dict[str, Any]:
    """The members of the response for a problem. `number` is the id of its request, if it has one."""
    return {
        "type": f"urn:gradebox:problem:{problem.name}",
        "title": _TITLES.get(problem.status) or HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
        "request_id": number,
        **problem.members,
    }


def problem_bytes(status: int, name: str, detail: str) -> bytes:
    """A complete response that ends its connection, for use below the application, where requests have no ids."""
    body = msgspec.json.encode(members_of(ProblemError(status, name, detail)))
    head = [b"content-type: " + MEDIA_TYPE.encode(), b"content-length: %d" % len(body), b"connection: close"]
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        head.append(b"retry-after: 1")
    return STATUS_LINE[status] + b"\r\n".join([*head, b"", body])


def add_handlers(app: FastAPI) -> None:
    """Registers handlers that turn every error of this app into a problem. They are coroutines, because others take a
    thread each.
    """
    app.add_exception_handler(ProblemError, _on_error)
    app.add_exception_handler(StorageError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(ClientDisconnect, _on_disconnect)
    app.add_exception_handler(WebSocketDisconnect, _on_leaving)
    app.add_exception_handler(ClientDisconnected, _on_leaving)
    for away in (*AWAY, SecretKeyError):
        app.add_exception_handler(away, _on_away)
    app.add_exception_handler(Exception, _on_error)  # a bug: the server logs the traceback


def problem_of(error: Exception) -> ProblemError:
    """The problem to send for an error. Only refusals keep their message: other messages may reveal internals."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, StorageError):
        found = (named for kind, named in _STORAGE.items() if isinstance(error, kind))
        status, name = next(found, (500, "internal"))
        headers = {"Retry-After": QUEUE_RETRY_S} if isinstance(error, QueueFull) else None
        return ProblemError(status, name, str(error), RETRY if isinstance(error, SecretKeyError) else headers)
    if (isinstance(error, OSError) and spool.is_full(error)) or (isinstance(error, RedisError) and is_full(error)):
        detail = (
            "the service has no space left and nothing was saved: try again later, or ask its operator to free space"
        )
        return ProblemError(507, "insufficient-storage", detail, {"Retry-After": FULL_RETRY_S})
    if isinstance(error, Busy):
        return ProblemError(429 if error.is_own else 503, "busy", str(error), RETRY)
    if isinstance(error, Stopped):
        return ProblemError(400, "disconnected", str(error))
    if isinstance(error, Unusable):
        return ProblemError(503, "build-unusable", str(error), RETRY)  # another machine may still have the packages
    if isinstance(error, AWAY):
        detail = "the service cannot do this now, because a part of it is unavailable: try again in a moment"
        return ProblemError(503, "unavailable", detail, RETRY)
    detail = "the service has an internal error: report it with the request's id, which is also in the service's log"
    return ProblemError(500, "internal", detail)


async def _on_error(request: Request, error: Exception) -> Response:
    return answer(request, problem_of(error))


async def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = [f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in error.errors()]
    return answer(request, invalid("; ".join(faults)))


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers: dict[str, str] = dict(error.headers or {})
    if error.status_code == HTTPStatus.NOT_FOUND:
        detail = _nothing_at(request)
        # The openai client shows only the message of an `error`.
        problem = ProblemError(404, "not-found", detail, headers, error={"message": detail})
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers |= await run_sync(_allowed, request)  # the first call generates the OpenAPI document
        problem = ProblemError(405, "method-not-allowed", _METHOD, headers)
    else:
        problem = ProblemError(error.status_code, "http", str(error.detail), headers)
    return answer(request, problem)


def _nothing_at(request: Request) -> str:
    """What to say of a path that no route has: the base URL of the client that seems to have requested it."""
    parts = set(request.url.path.split("/"))
    for dialect in request.app.state.services.settings.dialects:
        base, own = _BASES[dialect]
        if "projects" not in parts and not parts.isdisjoint(own):  # else these may be keys
            return f"there is nothing at this path: did you mean the base URL {base}? docs/{dialect}.md shows its use"
    return _NOTHING


def _allowed(request: Request) -> dict[str, str]:
    """The `Allow` header with all methods of a path. The router's own header has only those of the first route."""
    methods = request.app.openapi()["paths"].get(route_template(request.scope), ())
    names = {method.upper() for method in methods} | ({"HEAD"} if "get" in methods else set())
    return {"Allow": ", ".join(sorted(names))} if methods else {}


async def _on_disconnect(request: Request, _: Exception) -> Response:
    """Handles a client that disconnected: the answer is not read, but without it a server fault would be logged."""
    return answer(request, ProblemError(400, "disconnected", "the connection closed before the body had arrived"))


async def _on_leaving(_: Request, error: Exception) -> NoReturn:
    """Handles a websocket client that disconnected. The server logs nothing for this exception."""
    raise ClientDisconnected from error


def note_away(request: HTTPConnection, error: Exception) -> None:
    """Logs that a part of the service is unavailable."""
    # Without a traceback: while Redis is down every request fails, and the message names the cause.
    _log.error("request %s could not be served: %s: %s", request_id(request.scope), type(error).__name__, error)


async def _on_away(request: Request, error: Exception) -> Response:
    note_away(request, error)
    return answer(request, problem_of(error))
