"""Finds the caller's API key and checks its projects and role. A resource outside the caller's projects is a 404."""

from typing import Annotated

from fastapi import Depends, Request
from fastapi.openapi.models import HTTPBearer
from fastapi.requests import HTTPConnection
from fastapi.security.base import SecurityBase
from fastapi.security.utils import get_authorization_scheme_param
from starlette.types import Scope

from api.access.failed_keys import ADDRESS_CHARACTERS
from api.access.tenants import TENANT, name_of
from api.http.problems import ProblemError
from api.http.request_id import request_id
from api.services import Services
from gradebox.schemas import ROLES, ApiKey, Role
from storage.access.api_keys import EVERY_PROJECT
from storage.access.audit import acting
from storage.access.own_limits import OwnLimits
from storage.errors import no_project


async def identify(
    request: HTTPConnection, services: Services, secret: str | None, project: str | None = None
) -> ApiKey:
    """Returns the API key with this secret. Use `permit` to check that it covers the project.

    Raises:
        ProblemError: the secret is missing or belongs to no key, or the tenant has too many connections.
        NotFound: there is no such project.
    """
    if not secret:
        raise _unauthorized(
            "no API key was sent: give it by --api-key, api_key= or GRADEBOX_API_KEY, or over HTTP as "
            "`Authorization: Bearer KEY`"
        )
    key, limits = await services.look_up(services.store.api_keys.find_in, secret, project or "")
    if key is None:
        # Counted after the look-up: a valid key is accepted even if its address also sends wrong ones.
        services.strangers.note_wrong(request.headers.get("Authorization", ""))
        services.failed_keys.count(address_of(request.scope))
        raise _unauthorized("the API key is unknown or revoked: check it, or ask for a new one")
    services.strangers.note_good(request.headers.get("Authorization", ""))
    # A project that does not exist is like one that the key does not cover, also in its time and for the limits.
    admit(request, services, key, None if limits is None else project, limits)
    if project is not None and limits is None:
        raise no_project(project)
    return key


def admit(
    request: HTTPConnection,
    services: Services,
    key: ApiKey,
    project: str | None = None,
    limits: OwnLimits | None = None,
) -> None:
    """Lets a request act as this API key, for a project with these own limits if it names one. Raises ProblemError if
    the tenant has too many connections.
    """
    tenant = request.scope["state"].setdefault(TENANT, name_of(key, project))
    services.connections.claim(request.scope, tenant)
    acting.set({"key": key.id, "address": address_of(request.scope), "request_id": request_id(request.scope)})
    request.state.key = key
    request.state.own_limits = limits or {}


def address_of(scope: Scope) -> str:
    """The address of the client of a request."""
    client = scope.get("client")
    return str(client[0])[:ADDRESS_CHARACTERS] if client else "local"


def key_of(request: HTTPConnection) -> ApiKey:
    """The API key of a request that was identified."""
    key: ApiKey = request.state.key
    return key


def _unauthorized(detail: str) -> ProblemError:
    return ProblemError(401, "unauthorized", detail, {"WWW-Authenticate": "Bearer"})


def permit(key: ApiKey, project: str, role: Role) -> None:
    """Checks that a key covers the project, in this role or a higher one.

    Raises:
        NotFound: it does not cover the project.
        ProblemError: its role does not suffice.
    """
    if not covers(key, project):
        raise no_project(project)
    require(key, role)


def covers(key: ApiKey, project: str) -> bool:
    """Whether the key covers this project."""
    return EVERY_PROJECT in key.projects or project in key.projects


def may(key: ApiKey, role: Role) -> bool:
    """Whether the key has this role, or a higher one."""
    return ROLES.index(key.role) >= ROLES.index(role)


def require(key: ApiKey, role: Role) -> None:
    """Raises ProblemError if the key has neither this role nor a higher one."""
    if not may(key, role):
        detail = f"this needs an API key with role {role!r}, but this one has role {key.role!r}: ask for another key"
        raise ProblemError(403, "forbidden", detail)


def secret_of(request: HTTPConnection) -> str | None:
    """The bearer token of a request; None if there is none."""
    scheme, secret = get_authorization_scheme_param(request.headers.get("Authorization"))
    return secret.strip() or None if scheme.lower() == "bearer" else None


class Keyed(SecurityBase):
    """A dependency that requires an API key. It has no sub-dependencies, because each one costs FastAPI 0.03 ms."""

    model = HTTPBearer(description="API key")
    scheme_name = "HTTPBearer"


class _Caller(Keyed):
    async def __call__(self, request: Request) -> ApiKey:
        services: Services = request.app.state.services
        return await identify(request, services, secret_of(request))


Caller = Annotated[ApiKey, Depends(_Caller())]
"""Any valid API key."""


class _InProject(Keyed):
    def __init__(self, role: Role) -> None:
        self._role = role

    async def __call__(self, request: Request, project: str) -> str:
        services: Services = request.app.state.services
        permit(await identify(request, services, secret_of(request), project), project, self._role)
        return project


InProject = Annotated[str, Depends(_InProject("read"))]
"""The project of the path, for a key that may at least read it."""
ScoresIn = Annotated[str, Depends(_InProject("score"))]
"""The project of the path, for a key that may also score."""
ManagesIn = Annotated[str, Depends(_InProject("manage"))]
"""The project of the path, for a key that may also change stored data."""


def require_operator(key: ApiKey) -> None:
    """Raises ProblemError if the key may not manage keys and projects."""
    if EVERY_PROJECT not in key.projects or not may(key, "manage"):
        raise ProblemError(
            403,
            "forbidden",
            "this needs an API key with role 'manage' for every project (\"*\"), such as the one of the first start",
        )


class _Operator(_Caller):
    async def __call__(self, request: Request) -> ApiKey:
        key = await super().__call__(request)
        require_operator(key)
        return key


Operator = Annotated[ApiKey, Depends(_Operator())]
"""An API key that may manage keys and projects."""


class _OperatesIn(_InProject):
    async def __call__(self, request: Request, project: str) -> str:
        await super().__call__(request, project)
        require_operator(key_of(request))
        return project


OperatesIn = Annotated[str, Depends(_OperatesIn("manage"))]
"""The project of the path, for a key that may manage keys and projects."""
