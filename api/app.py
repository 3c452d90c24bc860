"""The API as an ASGI application."""

from fastapi import Depends, FastAPI, Request
from starlette.responses import RedirectResponse

from api import dialects
from api.http import openapi, problems
from api.http.head_method import HeadAsGet
from api.http.query import known_alone
from api.http.request_id import RequestId
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

_STRICT = [Depends(known_alone)]  # not for dialects and health checks, whose clients may send unknown parameters


def create_app(services: Services) -> FastAPI:
    """Create the ASGI application; its handlers use `services`."""
    app = FastAPI(
        title="gradebox",
        version="1",
        redirect_slashes=False,
        openapi_url=None,
        # It would look for providers of OpenTelemetry at each request, and send them the messages of exceptions.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.services = services
    # Routes are tried in order, so the most latency-sensitive ones come first.
    read_first = (score, batches, recorded_scores, validate, graders, numbers, tables, feedback, environments, models)
    for part in (*read_first, endpoints, budget, spending, audit):
        app.include_router(part.router, prefix="/v1/projects/{project}", dependencies=_STRICT)
    dialect_routers = dialects.routers(services.settings.dialects)
    for router in (me.router, projects.router, keys.router, audit.of_service):
        app.include_router(router, dependencies=_STRICT)
    for router in (health.router, metrics.router, docs.router, *dialect_routers):
        app.include_router(router)
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


async def _to_pages(_: Request) -> RedirectResponse:
    return RedirectResponse("/ui/")
