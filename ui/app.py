"""The web pages as an ASGI application, mounted at /ui."""

import logging
from os import PathLike, stat_result

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from api.http.problems import AWAY, ProblemError, problem_of
from api.services import Services
from api.telemetry.requests import route_template
from storage.errors import StorageError
from ui import batches, downloads, editor, graders, models, numbers, operations, row_page, signing_in
from ui.security import Guarded
from ui.templates import STATIC, page, rendered, ui
from ui.visits import SignedOut, visit

_log = logging.getLogger(__name__)
_TITLES = {
    403: "Not allowed",
    404: "Not found",
    429: "Wait a moment",
    503: "The service is not fully available",
    500: "A fault",
}


class _Static(StaticFiles):
    """Static files. Browsers may cache a file indefinitely if its URL contains its digest."""

    def file_response(
        self, full_path: str | PathLike[str], stat_result: stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        if scope["query_string"].startswith(b"v="):
            response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


class _Compressed(GZipMiddleware):
    """Compresses answers except downloads: compressing some hundred megabytes would delay other requests."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_file = scope["path"].endswith((".jsonl", ".csv"))
        await (self.app if is_file else super().__call__)(scope, receive, send)


def pages(services: Services) -> ASGIApp:
    """Make the application; its handlers use `services`."""
    project = "/projects/{project}"
    app = Starlette(
        routes=[
            Route("/", _home),
            Route("/sign-in", signing_in.form),
            Route("/sign-in", signing_in.sign_in, methods=["POST"]),
            Route("/sign-out", signing_in.sign_out, methods=["POST"]),
            Route("/enter", signing_in.ask_to_enter),
            Route("/enter", signing_in.enter, methods=["POST"]),
            Route(f"{project}/graders", graders.listed),
            Route(f"{project}/graders/{{key}}", editor.show),
            Route(f"{project}/graders/{{key}}/diff", graders.diff),
            Route(f"{project}/new", editor.new),
            Route(f"{project}/check", editor.check, methods=["POST"]),
            Route(f"{project}/keep", editor.keep, methods=["POST"]),
            Route(f"{project}/batches", batches.listed),
            Route(f"{project}/batches/{{batch}}", batches.show),
            Route(f"{project}/batches/{{batch}}/progress", batches.progress),
            Route(f"{project}/batches/{{batch}}/cancel", batches.cancel, methods=["POST"]),
            Route(f"{project}/batches/{{batch}}/retry", batches.retry, methods=["POST"]),
            Route(f"{project}/batches/{{batch}}/again", batches.again, methods=["POST"]),
            Route(f"{project}/batches/{{batch}}/rows/{{index}}", row_page.show),
            Route(f"{project}/batches/{{batch}}/outcomes.jsonl", downloads.as_lines),
            Route(f"{project}/batches/{{batch}}/outcomes.csv", downloads.as_csv),
            Route(f"{project}/batches/{{batch}}/agreement", numbers.agreement),
            Route(f"{project}/compare", numbers.compare),
            Route(f"{project}/models", models.listed),
            Route(f"{project}/environments", models.environments),
            Route(f"{project}/audit", operations.audit),
            Route(f"{project}/service", operations.service),
            Route(f"{project}/doctor", operations.doctor),
            Mount("/static", _Static(directory=STATIC)),
        ],
        middleware=[Middleware(_Compressed, minimum_size=1000, compresslevel=6)],
        exception_handlers={
            SignedOut: _signed_out,
            HTTPException: _no_page,
            ClientDisconnect: _left,
            **dict.fromkeys((ProblemError, StorageError, *AWAY, Exception), _fault),
        },
    )
    app.state.services = services
    return Guarded(app, services.settings.root_path)  # outermost, so that error pages have its headers too


async def _home(request: Request) -> Response:
    who = await visit(request)
    return RedirectResponse(f"{ui()}/projects/{who.project}/graders", 303)


async def _signed_out(request: Request, _: Exception) -> Response:
    return signing_in.signed_out(request)


async def _no_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = "There is no such page." if error.status_code == 404 else str(error.detail)
    return _reported(request, error.status_code, detail)


async def _left(_: Request, __: Exception) -> Response:
    """The client has disconnected. Without this handler, the log would report a fault."""
    return Response(status_code=400)


async def _fault(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    if problem.status >= 500 and isinstance(error, (StorageError, *AWAY)):  # the server logs the others
        _log.error("page %s could not be made: %s: %s", route_template(request.scope), type(error).__name__, error)
    answer = _reported(request, problem.status, problem.detail)
    answer.headers.update(problem.headers or {})
    return answer


def _reported(request: Request, status: int, detail: str) -> Response:
    """An error message: as a page, or within the open page."""
    if "hx-request" in request.headers:
        return HTMLResponse(
            rendered("_fault.html", detail=detail), status, {"HX-Retarget": "#notice", "HX-Reswap": "innerHTML"}
        )
    project = getattr(request.state, "project", "")
    home = f"{ui()}/projects/{project}/graders" if project else f"{ui()}/"
    return page("error.html", status, title=_TITLES.get(status, "This action failed"), detail=detail, home=home)
