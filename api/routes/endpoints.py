"""Endpoints of a project: reward servers, with their keys and headers."""

from contextlib import suppress
from functools import partial
from typing import cast

import msgspec
from anyio.to_thread import run_sync
from fastapi import Request, Response
from pydantic import TypeAdapter

from api.access.auth import InProject, ManagesIn
from api.access.callers import watched
from api.http import openapi
from api.http.routers import project_router
from api.intake import bodies, request_headers
from api.routes.registered_servers import NewServer, ServerChanges, Url, allowed, as_new, given, trials
from api.services import Served, Services
from gradebox.schemas import EndpointTrial, ProjectEndpoint
from storage.errors import KeyTaken, NotFound
from storage.models.endpoints import EndpointChanges

_ENDPOINTS = TypeAdapter(list[ProjectEndpoint])

router = project_router("endpoints", "/endpoints")


class NewEndpoint(NewServer, kw_only=True, forbid_unknown_fields=True):
    """A new endpoint: its URL, and the key and headers to send."""

    url: Url
    headers: request_headers.Headers = msgspec.field(default_factory=dict)


class ChangesOfEndpoint(ServerChanges, kw_only=True, forbid_unknown_fields=True):
    """The changes of an endpoint. An empty `api_key` removes the key. `headers` replace all headers."""

    url: Url | None = None
    headers: request_headers.Headers | None = None


@router.post("", status_code=201, openapi_extra=openapi.body(NewEndpoint))
async def create(request: Request, services: Served, project: ManagesIn) -> ProjectEndpoint:
    """Create an endpoint. It is not contacted yet: use the test. Its API key and the values of its headers are stored
    encrypted and never returned.
    """
    return await _create(services, project, await bodies.read_json(request, NewEndpoint))


@router.get("", response_model=list[ProjectEndpoint])
async def list_all(request: Request, services: Served, project: InProject) -> Response:
    """List the endpoints of the project, by key."""
    return await services.large_answers.make(request, _list, services, project)


def _list(services: Services, project: str) -> Response:
    return Response(_ENDPOINTS.dump_json(services.store.endpoints.all(project)), media_type="application/json")


@router.get("/{key}")
def get(services: Served, project: InProject, key: str) -> ProjectEndpoint:
    """Get one endpoint."""
    return services.store.endpoints.get(project, key)


@router.patch("/{key}", openapi_extra=openapi.body(ChangesOfEndpoint))
async def update(request: Request, services: Served, project: ManagesIn, key: str) -> ProjectEndpoint:
    """Change the given fields. A new URL needs the API key and the headers again, which were given for the old URL."""
    return await _update(services, project, key, await bodies.read_json(request, ChangesOfEndpoint))


@router.put("/{key}", openapi_extra=openapi.body(ChangesOfEndpoint))
async def put(request: Request, services: Served, project: ManagesIn, key: str) -> ProjectEndpoint:
    """Change the given fields of an endpoint. If there is none, create it, which takes `url`."""
    new = await bodies.read_json(request, ChangesOfEndpoint)
    try:
        return await _update(services, project, key, new)
    except NotFound:
        if new.url is None:
            raise
        with suppress(KeyTaken):  # meanwhile
            return await _create(services, project, as_new(key, new, NewEndpoint))
    return await _update(services, project, key, new)


async def _create(services: Services, project: str, new: NewEndpoint) -> ProjectEndpoint:
    request_headers.check(new.headers)
    fields = given(new)
    fields["url"] = await run_sync(allowed, services, new.url)
    return await run_sync(partial(services.store.endpoints.create, project, **fields))


async def _update(services: Services, project: str, key: str, new: ChangesOfEndpoint) -> ProjectEndpoint:
    await run_sync(services.store.endpoints.get, project, key)  # a missing endpoint is a 404, whatever the changes
    request_headers.check(new.headers or {})
    changes = cast(EndpointChanges, given(new))
    if "url" in changes:
        changes["url"] = await run_sync(allowed, services, changes["url"])
    return await run_sync(services.store.endpoints.update, project, key, changes)


@router.post("/{key}/test")
async def test(request: Request, services: Served, project: ManagesIn, key: str) -> EndpointTrial:
    """Have the endpoint score one thread. If it does not answer, the request still succeeds: `error` describes what
    happened and what to do.
    """
    access = await run_sync(services.store.endpoints.access, project, key)
    async with watched(request) as client, client.place(services.trials, project):
        found: EndpointTrial = await (await trials()).of_endpoint(access, services.models)
    await run_sync(services.store.endpoints.note_trial, project, key, access.server.revision, found)
    return found


@router.delete("/{key}", status_code=204)
def delete(services: Served, project: ManagesIn, key: str) -> None:
    """Delete an endpoint with its API key and headers."""
    services.store.endpoints.delete(project, key)
