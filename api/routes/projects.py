"""Projects."""

import msgspec
from anyio.to_thread import run_sync
from fastapi import Request

from api.access.auth import Caller, Operator
from api.http import openapi
from api.http.routers import service_router
from api.intake import bodies
from api.intake.source_upload import Key
from api.routes.graders import Description, Name
from api.services import Served
from gradebox.schemas import Project

router = service_router("/v1/projects", "projects")


class NewProject(msgspec.Struct, forbid_unknown_fields=True):
    """A new project. The name defaults to the key."""

    key: Key
    name: Name = ""
    description: Description = ""


@router.post("", status_code=201, openapi_extra=openapi.body(NewProject))
async def create(request: Request, services: Served, operator: Operator) -> Project:
    """Create a project."""
    new = await bodies.read_json(request, NewProject)
    return await run_sync(services.store.projects.create, new.key, new.name, new.description)


@router.get("")
def list_covered(services: Served, caller: Caller) -> list[Project]:
    """List the projects that the API key covers, by key."""
    return services.store.projects.covered(caller.projects)
