"""Who asks, for which project, and in which role. What is not yours answers as what is not there."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import Depends, Request
from fastapi.requests import HTTPConnection
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from api.problems import ProblemError
from api.request_id import request_id
from api.services import Services
from gradebox.schemas import ROLES, ApiKey, Role
from storage.api_keys import EVERY_PROJECT
from storage.audit import acting
from storage.errors import no_project

Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False, description="an API key"))]


async def identify(
    request: HTTPConnection, services: Services, secret: str | None, project: str | None = None
) -> ApiKey:
    """The API key of this secret. `permit` says whether it is for the project.

    Raises:
        ProblemError: it is none.
        NotFound: there is no such project.
    """
    if not secret:
        raise _unauthorized("no API key was sent: send it as `Authorization: Bearer KEY`")
    key = await run_sync(services.store.api_keys.find, secret, project)
    address = request.client.host if request.client else "local"
    if key is None:
        # Counted after the look-up: a right key is let in, whoever else at its address sends wrong ones.
        services.failed_keys.count(address)
        raise _unauthorized("the API key is unknown or revoked: check it, or ask for a new one")
    acting.set({"key": key.id, "address": address, "request_id": request_id(request.scope)})
    return key


def _unauthorized(detail: str) -> ProblemError:
    return ProblemError(401, "unauthorized", detail, {"WWW-Authenticate": "Bearer"})


def permit(key: ApiKey, project: str, role: Role) -> None:
    """Lets a key through that covers the project in this role or a higher one.

    Raises:
        NotFound: it does not cover the project.
        ProblemError: its role does not suffice.
    """
    if not covers(key, project):
        raise no_project(project)
    require(key, role)


def covers(key: ApiKey, project: str) -> bool:
    """Whether the key is for this project."""
    return EVERY_PROJECT in key.projects or project in key.projects


def may(key: ApiKey, role: Role) -> bool:
    """Whether the key has this role, or a higher one."""
    return ROLES.index(key.role) >= ROLES.index(role)


def require(key: ApiKey, role: Role) -> None:
    """Raises ProblemError where the key has not this role, nor a higher one."""
    if not may(key, role):
        detail = f"this needs an API key of role {role!r}, and this one is of role {key.role!r}: ask for another key"
        raise ProblemError(403, "forbidden", detail)


def secret_of(bearer: HTTPAuthorizationCredentials | None) -> str | None:
    """What was sent as an API key."""
    return bearer.credentials.strip() if bearer else None


async def _caller(request: Request, bearer: Bearer) -> ApiKey:
    services: Services = request.app.state.services  # one `Depends` less
    return await identify(request, services, secret_of(bearer), request.path_params.get("project"))


Caller = Annotated[ApiKey, Depends(_caller)]
"""Whoever has an API key."""


def _in_project(role: Role) -> Callable[[str, ApiKey], Awaitable[str]]:
    async def permitted(project: str, key: Caller) -> str:
        permit(key, project, role)
        return project

    return permitted


InProject = Annotated[str, Depends(_in_project("read"))]
"""The project of the path, for a key that may at least read it."""
ScoresIn = Annotated[str, Depends(_in_project("score"))]
"""The same, for a key that may have things scored."""
ManagesIn = Annotated[str, Depends(_in_project("manage"))]
"""The same, for a key that may change what is kept."""


def require_operator(key: ApiKey) -> None:
    """Raises ProblemError where the key may not manage keys and projects."""
    if EVERY_PROJECT not in key.projects or not may(key, "manage"):
        raise ProblemError(
            403,
            "forbidden",
            "this needs an API key of role 'manage' for every project (\"*\"), such as the one of the first start",
        )


def _operator(key: Caller) -> ApiKey:
    require_operator(key)
    return key


Operator = Annotated[ApiKey, Depends(_operator)]
"""Whoever may manage keys and projects."""
