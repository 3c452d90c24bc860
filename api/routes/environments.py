"""Environments: packages that graders may import."""

from functools import partial
from typing import Annotated

import anyio
import msgspec
from anyio.to_thread import run_sync
from fastapi import APIRouter, Query, Request

from api.access.auth import InProject, ManagesIn
from api.http import openapi
from api.http.problems import ProblemError, invalid
from api.intake import bodies
from api.services import Served, Services
from gradebox.schemas import KEY_PATTERN, Environment
from worker.environments import requirements

LONGEST_WAIT_S = 30
_LOOK_S = 0.5

Key = Annotated[str, msgspec.Meta(pattern=KEY_PATTERN)]
Requirements = Annotated[list[str], msgspec.Meta(max_length=1000)]

router = APIRouter(prefix="/environments", tags=["environments"])


class NewBuild(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a build is to be made of: names of packages, with versions and extras."""

    requirements: Requirements


class NewEnvironment(NewBuild, kw_only=True, forbid_unknown_fields=True):
    """An environment to be made."""

    key: Key


@router.post("", status_code=202, openapi_extra=openapi.body(NewEnvironment))
async def create(request: Request, services: Served, project: ManagesIn) -> Environment:
    """Makes an environment, whose first build a worker begins at once. The answer has that build."""
    new = await bodies.read_json(request, NewEnvironment)
    wanted = _wanted(services, new)
    return await run_sync(services.store.environments.create, project, new.key, wanted)


@router.put("/{key}", status_code=202, openapi_extra=openapi.body(NewBuild))
async def update(request: Request, services: Served, project: ManagesIn, key: str) -> Environment:
    """Begins a new build, unless the newest is of the same requirements. Graders keep the build that they name."""
    new = await bodies.read_json(request, NewBuild)
    await run_sync(services.store.environments.get, project, key)  # one that is not there is not there for anybody
    wanted = _wanted(services, new)
    return await run_sync(services.store.environments.update, project, key, wanted)


@router.get("")
def list_all(services: Served, project: InProject) -> list[Environment]:
    """The environments of the project, by key, each with its newest build."""
    return services.store.environments.all(project)


@router.get("/{key}")
async def get(
    services: Served,
    project: InProject,
    key: str,
    wait_s: Annotated[float, Query(ge=0, le=LONGEST_WAIT_S, description="wait at most so long for its build")] = 0,
) -> Environment:
    """One environment with all of its builds; with `wait_s`, as soon as the newest one is over or a step further."""
    look = partial(run_sync, services.store.environments.get, project, key)
    found = first = await look()
    with anyio.move_on_after(wait_s):
        while found.state == "building" and _step(found) == _step(first):
            await anyio.sleep(_LOOK_S)
            found = await look()
    return found


@router.delete("/{key}", status_code=204)
def delete(services: Served, project: ManagesIn, key: str) -> None:
    """Forgets an environment and its builds, unless a version of a grader names one."""
    services.store.environments.delete(project, key)


def _step(environment: Environment) -> str:
    newest = environment.newest
    return newest.step if newest else ""


def _wanted(services: Services, new: NewBuild) -> list[str]:
    """The requirements in one form. Raises ProblemError where they cannot be built."""
    if services.environments.environments != "on":
        raise ProblemError(
            403, "forbidden", "this service builds no environments: have its operator set GRADEBOX_ENVIRONMENTS=on"
        )
    try:
        return requirements.read(new.requirements)
    except requirements.NotAllowed as error:
        raise invalid(str(error)) from error
