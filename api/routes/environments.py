"""Environments: packages that graders may import."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import msgspec
from anyio import CancelScope, current_time, move_on_at
from anyio.to_thread import run_sync
from fastapi import Query, Request, Response
from pydantic import TypeAdapter

from api.access.auth import InProject, ManagesIn
from api.http import openapi
from api.http.problems import ProblemError, invalid
from api.http.routers import project_router
from api.intake import bodies
from api.intake.source_upload import Key
from api.services import Served, Services
from gradebox.schemas import Environment, EnvironmentData
from sandbox.environments import PYTHON
from storage.environments import environment_records as records
from storage.uploads import DataUpload
from worker.environments import requirements
from worker.environments.data_zip import DataRefused, check

LONGEST_WAIT_S = 30
_ZIP = "application/zip"
_ENVIRONMENTS = TypeAdapter(list[Environment])

Packages = Annotated[list[str], msgspec.Meta(max_length=1000)]
Data = Annotated[
    str, msgspec.Meta(pattern="^([0-9a-f]{64})?$", max_length=64, description="the SHA-256 of uploaded data, or empty")
]

router = project_router("environments", "/environments")


class NewBuild(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The input of a build: package names with versions and extras, and the SHA-256 of uploaded data. Omitted fields
    stay unchanged. An empty `data` means no data.
    """

    packages: Packages | None = None
    data: Data | None = None


class NewEnvironment(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A new environment."""

    key: Key
    packages: Packages = []
    data: Data = ""


@router.post("", status_code=202, openapi_extra=openapi.body(NewEnvironment))
async def create(request: Request, services: Served, project: ManagesIn) -> Environment:
    """Create an environment. A worker starts its first build at once. The response includes that build."""
    new = await bodies.read_json(request, NewEnvironment)
    wanted = _wanted(services, new.packages)
    return await run_sync(services.store.environments.create, project, new.key, wanted, new.data)


@router.post("/data", status_code=201, openapi_extra=openapi.bytes_of(_ZIP, "a zip file, at most 256 MiB"))
async def send_data(request: Request, services: Served, project: ManagesIn) -> EnvironmentData:
    """Upload data for environments, as a zip file. It is kept for a day, and as long as an environment refers to its
    SHA-256.
    """
    _check_on(services)
    if bodies.media_type(request) != _ZIP:
        raise bodies.unsupported(request, _ZIP)
    most_mb = services.environments.environment_data_mb
    upload = await run_sync(DataUpload, services.store, project)
    try:
        advice = f"data may take {most_mb} MiB as it is sent (GRADEBOX_ENVIRONMENT_DATA_MB)"
        await bodies.pour(request, most_mb * bodies.MIB, upload.write, advice)
        return await services.checking.run_for(request, project, _keep, services, project, upload)
    except BaseException:
        with CancelScope(shield=True):
            await run_sync(upload.abandon)
        raise


def _keep(services: Services, project: str, upload: DataUpload) -> EnvironmentData:
    """Checks and stores uploaded data. Raises ProblemError if it is invalid."""
    upload.close()
    data = services.store.environment_data
    try:
        with services.store.spool.open_data(upload.id) as sent:
            files = check(sent, services.pool.environments.most_mb)
    except DataRefused as refused:
        services.store.orphan_files.condemn(upload.id)
        raise invalid(str(refused)) from refused
    data.keep(project, upload.sha256, upload.id, upload.size)
    size = sum(file.file_size for file in files)
    return EnvironmentData(sha256=upload.sha256, size_bytes=size, files=len(files))


@router.put("/{key}", status_code=202, openapi_extra=openapi.body(NewBuild))
async def update(request: Request, services: Served, project: ManagesIn, key: str) -> Environment:
    """Start a new build, unless the newest one has the same input, is for the service's Python and is still stored as
    it was built. Graders keep the build that they refer to.
    """
    new = await bodies.read_json(request, NewBuild)
    await run_sync(services.store.environments.newest, project, key)  # a missing one is a 404, whatever is sent
    wanted = None if new.packages is None else _wanted(services, new.packages)
    _check_on(services)
    return await services.read(request, _update, services, project, key, wanted, new.data)


def _update(services: Services, project: str, key: str, packages: list[str] | None, data: str | None) -> Environment:
    store = services.store
    newest = store.environments.newest(project, key)
    is_gone = newest.state == "ready" and (newest.python != PYTHON or not store.archives.has(newest.sha256))
    return store.environments.update(project, key, packages, data, newest.number if is_gone else None)


@router.get("", response_model=list[Environment])
async def list_all(request: Request, services: Served, project: InProject) -> Response:
    """List the environments of the project, by key, each with its newest build."""
    return await services.large_answers.make(request, _list, services, project)


def _list(services: Services, project: str) -> Response:
    return Response(_ENVIRONMENTS.dump_json(services.store.environments.all(project)), media_type="application/json")


@router.get("/{key}", response_model=Environment)
async def get(
    request: Request,
    services: Served,
    project: InProject,
    key: str,
    wait_s: Annotated[float, Query(ge=0, le=LONGEST_WAIT_S, description="seconds to wait at most for its build")] = 0,
) -> Response:
    """Get one environment with all of its builds; with `wait_s`, wait until the newest one is over or progresses."""
    if wait_s:
        await _wait(services, project, key, wait_s)
    return await services.large_answers.make(request, _get, services, project, key)


def _get(services: Services, project: str, key: str) -> Response:
    found = services.store.environments.get(project, key)
    return Response(found.model_dump_json(), media_type="application/json")


async def _wait(services: Services, project: str, key: str, wait_s: float) -> None:
    """Returns when the newest build is over or has progressed, or after `wait_s` seconds."""
    look = partial(run_sync, services.store.environments.newest, project, key)
    changed = asyncio.Event()
    call = partial(asyncio.get_running_loop().call_soon_threadsafe, changed.set)
    ends = current_time() + wait_s
    with services.store.endings.calling(records.event(project, key), call):
        newest = first = await look()
        while newest.state == "building" and newest == first and current_time() < ends:
            with move_on_at(ends):
                await changed.wait()
            changed.clear()
            newest = await look()


@router.delete("/{key}", status_code=204)
def delete(services: Served, project: ManagesIn, key: str) -> None:
    """Delete an environment and its builds, unless a version of a grader refers to one."""
    services.store.environments.delete(project, key)


def _wanted(services: Services, asked: Sequence[str]) -> list[str]:
    """Normalises the packages asked for. Raises ProblemError if they cannot be built."""
    _check_on(services)
    try:
        return requirements.read(asked)
    except requirements.RequirementRefused as error:
        raise invalid(str(error)) from error


def _check_on(services: Services) -> None:
    """Raises ProblemError if no environments may be built."""
    if services.environments.environments != "on":
        raise ProblemError(
            403, "forbidden", "this service builds no environments: have its operator set GRADEBOX_ENVIRONMENTS=on"
        )
