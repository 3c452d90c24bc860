"""The API as an ASGI application."""

from fastapi import APIRouter, FastAPI

from api import (
    audit,
    batches,
    dialects,
    graders,
    health,
    keys,
    metrics,
    openapi,
    problems,
    projects,
    score,
    validate,
)
from api.memory import ReleaseBodies
from api.observe import Observed
from api.request_id import RequestId
from api.services import Services


def create_app(services: Services) -> FastAPI:
    """The API, with what its handlers work with."""
    app = FastAPI(title="gradebox", version="1", redirect_slashes=False)
    app.state.services = services
    in_project = APIRouter(prefix="/v1/projects/{project}")
    for part in (validate, graders, score, batches, audit):
        in_project.include_router(part.router)
    spoken = dialects.routers(services.settings.dialects)
    own = (projects.router, keys.router, audit.of_service, in_project, health.router, metrics.router)
    for router in (*own, *spoken):
        app.include_router(router)
    app.add_middleware(ReleaseBodies, memory=services.memory)
    app.add_middleware(Observed, requests=services.requests)
    app.add_middleware(RequestId)
    problems.add_handlers(app)
    openapi.describe(app)
    return app
