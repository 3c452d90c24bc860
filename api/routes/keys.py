"""API keys, for callers who may manage them."""

from typing import Annotated

import msgspec
from anyio.to_thread import run_sync
from fastapi import Request

from api.access.auth import Operator
from api.http import openapi
from api.http.problems import ProblemError
from api.http.routers import service_router
from api.intake import bodies
from api.services import Served, Services
from gradebox.schemas import ApiKey, Role
from storage.access.api_keys import EVERY_PROJECT

router = service_router("/v1/keys", "keys")


class NewKey(msgspec.Struct, forbid_unknown_fields=True):
    """A new key: its owner or purpose, its projects ("*" means all), and its role in them."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    projects: Annotated[list[Annotated[str, msgspec.Meta(max_length=64)]], msgspec.Meta(min_length=1, max_length=1000)]
    role: Role = "manage"


@router.post("", status_code=201, openapi_extra=openapi.body(NewKey))
async def create(request: Request, services: Served, operator: Operator) -> ApiKey:
    """Create a key. Its secret is only in this response."""
    return await run_sync(_create, services, await bodies.read_json(request, NewKey))


def _create(services: Services, new: NewKey) -> ApiKey:
    for project in new.projects:
        if project != EVERY_PROJECT:
            services.store.projects.check(project)
    return services.store.api_keys.create(new.name, new.projects, new.role)


@router.get("")
def list_all(services: Served, operator: Operator) -> list[ApiKey]:
    """List all keys without their secrets, oldest first."""
    return services.store.api_keys.all()


@router.delete("/{key_id}", status_code=204)
def revoke(services: Served, operator: Operator, key_id: str) -> None:
    """Revoke a key at once. A key cannot revoke itself, so that one that manages keys always remains."""
    if key_id == operator.id:
        detail = "this is the API key of this request: create another one, and revoke this one with it"
        raise ProblemError(409, "conflict", detail)
    services.store.api_keys.revoke(key_id)
