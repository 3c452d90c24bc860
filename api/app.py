"""The API as an ASGI application."""

from fastapi import FastAPI, Request
from starlette.responses import RedirectResponse

from api import dialects
from api.http import openapi, problems
from api.http.head_method import HeadAsGet
from api.http.request_id import RequestId
from api.http.routers import add_routes
from api.http.unfinished import Unfinished
from api.routes import (
    audit,
    batches,
    budget,
    docs,
    endpoints,
    environments,
    feedback,
    graders,
    health,
    keys,
    limits,
    me,
    metrics,
    models,
    numbers,
    projects,
    recorded_scores,
    score,
    spending,
    tables,
    validate,
)
from api.services import Release, Services
from api.telemetry.requests import Observed


def create_app(services: Services) -> FastAPI:
    """Create the ASGI application; its handlers use `services`."""
    app = FastAPI(
        title="gradebox",
        version="1",
        redirect_slashes=False,
        openapi_url=None,
        servers=[{"url": services.settings.root_path}] if services.settings.root_path else None,
        # It would look for providers of OpenTelemetry at each request, and send them the messages of exceptions.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.services = services
    # Routes are tried in order, so the most latency-sensitive ones come first.
    read_first = (score, batches, recorded_scores, validate, graders, numbers, tables, feedback, environments, models)
    later = (endpoints, budget, limits, spending, audit, me, projects, keys, health, metrics, docs)
    for part in (*read_first, *later):
        add_routes(app, part.router)
    for router in (audit.of_service, *dialects.routers(services.settings.dialects)):
        add_routes(app, router)
    if services.settings.ui == "on":
        from ui.app import pages  # imported here: the template engine takes 6 MiB, and pages are optional

        app.mount("/ui", pages(services))
        app.add_route("/", _to_pages)
        app.add_route("/ui", _to_pages)  # the mount has only paths below it
    app.add_middleware(Unfinished)
    app.add_middleware(Release, services=services)
    app.add_middleware(Observed, requests=services.requests)
    app.add_middleware(RequestId)
    app.add_middleware(HeadAsGet)
    problems.add_handlers(app)
    openapi.describe(app)
    return app


async def _to_pages(request: Request) -> RedirectResponse:
    return RedirectResponse(f"{request.app.state.services.settings.root_path}/ui/")
