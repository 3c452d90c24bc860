"""The limits of a project."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from anyio.to_thread import run_sync
from fastapi import Request

from api.access.auth import InProject, OperatesIn
from api.http import openapi
from api.http.problems import invalid
from api.http.routers import project_router
from api.intake import bodies
from api.services import Served, Services
from api.settings import MAX_BATCH_GRADERS, MAX_BATCH_MB, MAX_SCORE_MB, MAX_SCORE_THREADS
from gradebox.limits import MAX_SOURCE_BYTES, MIN_SOURCE_BYTES
from gradebox.schemas import ProjectLimits
from sandbox.limits import MAX_MEMORY_MB, MAX_TIMEOUT_S, MIN_MEMORY_MB, SANDBOX_MIB
from storage.access.own_limits import OwnLimits
from storage.spool.chunks import MAX_BATCH_LINES

router = project_router("projects", "/limits")

_Seconds = Annotated[float, msgspec.Meta(ge=0.1, le=MAX_TIMEOUT_S)]


class NewLimits(msgspec.Struct, forbid_unknown_fields=True):
    """The limits of a project that change. Omitted ones and null stay unchanged."""

    source_bytes: Annotated[int, msgspec.Meta(ge=MIN_SOURCE_BYTES, le=MAX_SOURCE_BYTES)] | None = None
    timeout_s: _Seconds | None = None
    memory_mb: Annotated[int, msgspec.Meta(ge=MIN_MEMORY_MB, le=MAX_MEMORY_MB)] | None = None
    score_threads: Annotated[int, msgspec.Meta(ge=1, le=MAX_SCORE_THREADS)] | None = None
    score_mb: Annotated[int, msgspec.Meta(ge=1, le=MAX_SCORE_MB)] | None = None
    batch_threads: Annotated[int, msgspec.Meta(ge=1, le=MAX_BATCH_LINES)] | None = None
    batch_mb: Annotated[int, msgspec.Meta(ge=1, le=MAX_BATCH_MB)] | None = None
    batch_graders: Annotated[int, msgspec.Meta(ge=1, le=MAX_BATCH_GRADERS)] | None = None


@router.get("")
async def get(request: Request, services: Served, project: InProject) -> ProjectLimits:
    """Get the limits of the project, and those of a project that has none of its own."""
    return _shown(services, request.state.own_limits)


@router.patch("", openapi_extra=openapi.body(NewLimits))
async def change(request: Request, services: Served, project: OperatesIn) -> ProjectLimits:
    """Change limits of the project. Needs the role manage for every project."""
    sent = msgspec.structs.asdict(await bodies.read_json(request, NewLimits))
    changes = {name: limit for name, limit in sent.items() if limit is not None}
    if not changes:
        raise invalid("name a limit to change, such as `batch_threads`; DELETE removes the project's own limits")
    _check_held(services, changes)
    changed = await run_sync(services.store.projects.set_limits, project, changes)
    return _shown(services, changed.limits)


@router.delete("", status_code=204)
def delete(services: Served, project: OperatesIn) -> None:
    """Remove the project's own limits, so that it has those of the service. Needs the role manage for every project."""
    services.store.projects.set_limits(project, None)


def _shown(services: Services, own: OwnLimits) -> ProjectLimits:
    return ProjectLimits(limits=services.limits_of(own), defaults=services.limits, own=sorted(own))


def _check_held(services: Services, limits: OwnLimits) -> None:
    """Raises ProblemError if a limit is above what the settings of the service can hold."""
    bounds = services.store.backlog.bounds
    held: Mapping[str, tuple[int, str]] = {
        "memory_mb": (services.pool.settings.most_memory_mb - SANDBOX_MIB, "GRADEBOX_SANDBOXES_MEMORY_MB"),
        "batch_threads": (bounds.waiting.completions, "GRADEBOX_WAITING_COMPLETIONS"),
        "batch_mb": (bounds.spool_bytes >> 20, "GRADEBOX_PROJECT_SPOOL_GB"),
    }
    for name, (most, setting) in held.items():
        if (asked := limits.get(name, 0)) > most:
            raise invalid(f"{name} is {asked}, and the service holds at most {most}: ask for less, or raise {setting}")
