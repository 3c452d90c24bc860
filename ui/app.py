"""The pages as an ASGI application, below /ui."""

from os import PathLike, stat_result

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from api.http.problems import AWAY, ProblemError, problem_of
from api.services import Services
from storage.errors import StorageError
from ui import batches, downloads, editor, graders, models, numbers, rows, signing_in
from ui.security import Guarded
from ui.templates import STATIC, page, rendered
from ui.visits import SignedOut, visit

_TITLES = {403: "Not allowed", 404: "Not found", 429: "Wait a moment", 503: "The service is not whole", 500: "A fault"}


class _Static(StaticFiles):
    """Files that browsers keep where their URL names what they hold."""

    def file_response(
        self, full_path: PathLike[str], stat_result: stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        if scope["query_string"].startswith(b"v="):
            response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


def pages(services: Services) -> Starlette:
    """The pages, with what their handlers work with."""
    project = "/projects/{project}"
    app = Starlette(
        routes=[
            Route("/", _home),
            Route("/sign-in", signing_in.form),
            Route("/sign-in", signing_in.sign_in, methods=["POST"]),
            Route("/sign-out", signing_in.sign_out, methods=["POST"]),
            Route("/enter", signing_in.enter),
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
            Route(f"{project}/batches/{{batch}}/rows/{{index}}", rows.show),
            Route(f"{project}/batches/{{batch}}/outcomes.jsonl", downloads.as_lines),
            Route(f"{project}/batches/{{batch}}/outcomes.csv", downloads.as_csv),
            Route(f"{project}/batches/{{batch}}/agreement", numbers.agreement),
            Route(f"{project}/compare", numbers.compare),
            Route(f"{project}/models", models.listed),
            Mount("/static", _Static(directory=STATIC)),
        ],
        middleware=[Middleware(Guarded), Middleware(GZipMiddleware, minimum_size=1000, compresslevel=6)],
        exception_handlers={
            SignedOut: _signed_out,
            HTTPException: _no_page,
            **dict.fromkeys((ProblemError, StorageError, *AWAY, Exception), _fault),
        },
    )
    app.state.services = services
    return app


async def _home(request: Request) -> Response:
    who = await visit(request)
    return RedirectResponse(f"/ui/projects/{who.project}/graders", 303)


async def _signed_out(request: Request, _: Exception) -> Response:
    return signing_in.signed_out(request)


async def _no_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = "There is no such page." if error.status_code == 404 else str(error.detail)
    return _told(request, error.status_code, detail)


async def _fault(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    return _told(request, problem.status, problem.detail)


def _told(request: Request, status: int, detail: str) -> Response:
    """A fault in words: as a page, or in the page that is open."""
    if "hx-request" in request.headers:
        return HTMLResponse(
            rendered("_fault.html", detail=detail), status, {"HX-Retarget": "#notice", "HX-Reswap": "innerHTML"}
        )
    return page("error.html", status, title=_TITLES.get(status, "This cannot be done"), detail=detail)
