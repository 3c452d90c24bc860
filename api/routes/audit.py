"""The audit log: the lines that storage writes with each change."""

from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import TypeAdapter

from api.access.auth import ManagesIn, Operator
from api.http.routers import project_router, service_router
from api.services import Served, Services
from gradebox.schemas import AuditLine
from storage.access.api_keys import EVERY_PROJECT

PAGE = 100

_Limit = Annotated[int, Query(ge=1, le=1000)]
_Before = Annotated[
    str | None, Query(pattern=r"^[0-9]{1,15}-[0-9]{1,9}$", description="only lines older than the line with this id")
]

_LINES = TypeAdapter(list[AuditLine])

router = project_router("audit")
of_service = service_router("/v1", "audit")


@router.get("/audit", response_model=list[AuditLine])
async def list_newest(
    request: Request, services: Served, project: ManagesIn, limit: _Limit = PAGE, before: _Before = None
) -> Response:
    """List the newest changes of the project first; `before` continues after the line with that id."""
    return await services.large_answers.make(request, _newest, services, project, limit, before)


@of_service.get("/audit", response_model=list[AuditLine])
async def list_newest_of_service(
    request: Request, services: Served, operator: Operator, limit: _Limit = PAGE, before: _Before = None
) -> Response:
    """List the newest changes of API keys and projects first; `before` continues after the line with that id."""
    return await services.large_answers.make(request, _newest, services, EVERY_PROJECT, limit, before)


def _newest(services: Services, project: str, limit: int, before: str | None) -> Response:
    found = services.store.audit.newest(project, limit, before)
    return Response(_LINES.dump_json(found), media_type="application/json")
