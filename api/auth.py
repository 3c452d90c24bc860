"""Who asks, and for which project. What is not yours answers as what is not there."""

from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from api.problems import ProblemError
from api.services import Served
from gradebox.schemas import ApiKey
from storage.api_keys import EVERY_PROJECT
from storage.projects import not_found

_Bearer = Annotated[
    HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False, description="an API key"))
]


def _caller(bearer: _Bearer, services: Served) -> ApiKey:
    if bearer is None:
        raise _unauthorized("no API key was sent: send it as `Authorization: Bearer KEY`")
    key = services.store.api_keys.find(bearer.credentials.strip())
    if key is None:
        raise _unauthorized("the API key is unknown or revoked: check it, or ask for a new one")
    return key


def _unauthorized(detail: str) -> ProblemError:
    return ProblemError(401, "unauthorized", detail, {"WWW-Authenticate": "Bearer"})


Caller = Annotated[ApiKey, Depends(_caller)]


def covers(key: ApiKey, project: str) -> bool:
    """Whether the key is for this project."""
    return EVERY_PROJECT in key.projects or project in key.projects


def _project(project: str, key: Caller, services: Served) -> str:
    if not covers(key, project):
        raise not_found(project)
    services.store.projects.check(project)
    return project


InProject = Annotated[str, Depends(_project)]


def _manager(key: Caller) -> ApiKey:
    if EVERY_PROJECT not in key.projects:
        raise ProblemError(
            403, "forbidden", 'this needs an API key for every project ("*"), such as the one of the first start'
        )
    return key


Manager = Annotated[ApiKey, Depends(_manager)]
