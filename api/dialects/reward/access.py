"""Authenticates clients of reward servers. RewardClient cannot send headers, but the `user:password@` of its URL."""

import base64
from collections.abc import Awaitable, Callable
from typing import Annotated, NamedTuple

from fastapi import Depends
from fastapi.requests import HTTPConnection

from api.access.auth import identify, permit
from api.http.problems import ProblemError
from api.services import Served, Services
from gradebox.schemas import Role


class Target(NamedTuple):
    """A grader that the caller may use."""

    project: str
    key: str


class _Sent(NamedTuple):
    user: str
    secret: str


async def enter(connection: HTTPConnection, services: Services, project: str, role: Role) -> None:
    """Identifies the caller and checks that its key has this role in the project.

    Raises:
        NotFound: it does not cover the project, or there is none.
        ProblemError: no key was sent, it is wrong, or its role does not suffice.
    """
    permit(await identify(connection, services, _sent(connection).secret, project), project, role)


def at_path(role: Role) -> Callable[[HTTPConnection, Services, str, str], Awaitable[Target]]:
    """A dependency that returns the path's grader, for a key of this role."""

    async def entered(connection: HTTPConnection, services: Served, project: str, key: str) -> Target:
        await enter(connection, services, project, role)
        return Target(project, key)

    return entered


def of_user(role: Role) -> Callable[[HTTPConnection, Services], Awaitable[Target]]:
    """A dependency that returns the grader in the user name, `project+grader`. The client's blocking calls drop the
    URL's path.
    """

    async def entered(connection: HTTPConnection, services: Served) -> Target:
        project, plus, key = _sent(connection).user.partition("+")
        if not plus:
            await identify(connection, services, _sent(connection).secret)
            detail = "this names no grader: write the URL as http://PROJECT+GRADER:KEY@host/reward/PROJECT/GRADER"
            raise ProblemError(404, "not-found", detail)
        await enter(connection, services, project, role)
        return Target(project, key)

    return entered


def _sent(connection: HTTPConnection) -> _Sent:
    """Extracts the API key: the password of Basic, or the user name if there is no password, or the Bearer token."""
    scheme, _, rest = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return _Sent("", rest.strip())
    if scheme.lower() != "basic":
        return _Sent("", "")
    try:
        user, _, password = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
    except ValueError:  # neither base64 nor UTF-8
        return _Sent("", "")
    return _Sent(user, password or user)


Scored = Annotated[Target, Depends(at_path("score"))]
Shown = Annotated[Target, Depends(at_path("read"))]
ScoredByName = Annotated[Target, Depends(of_user("score"))]
ShownByName = Annotated[Target, Depends(of_user("read"))]
