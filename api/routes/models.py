"""Models of a project: servers of chat completions, with their keys."""

from contextlib import suppress
from functools import partial
from typing import Annotated, Any, cast

import msgspec
from anyio.to_thread import run_sync
from fastapi import Request, Response
from msgspec.structs import asdict
from pydantic import TypeAdapter

from api.access.auth import InProject, ManagesIn
from api.access.callers import watched
from api.http import openapi
from api.http.problems import invalid
from api.http.routers import project_router
from api.intake import bodies
from api.routes.registered_servers import NewServer, PerMinute, ServerChanges, Url, allowed, as_new, given, trials
from api.services import Served, Services
from gradebox.schemas import ModelDefaults, ModelFault, ModelTrial, ProjectModel
from storage.errors import KeyTaken, NotFound
from storage.models.models import Changes

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
UsdPerMillion = Annotated[float, msgspec.Meta(ge=0, le=1_000_000, description="USD for a million tokens")]

_MODELS = TypeAdapter(list[ProjectModel])

router = project_router("models", "/models")


class NewDefaults(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The parameters of each request to the model, unless the request has its own."""

    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    seed: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] | None = None


class NewModel(NewServer, kw_only=True, forbid_unknown_fields=True):
    """A new model: its server, its name there, the key to send, and its limits."""

    base_url: Url
    model: Name
    defaults: NewDefaults = msgspec.field(default_factory=NewDefaults)
    tokens_per_minute: PerMinute = 0
    input_price: UsdPerMillion | None = None
    output_price: UsdPerMillion | None = None
    keep_replies: bool = True


class ModelChanges(ServerChanges, kw_only=True, forbid_unknown_fields=True):
    """The changes of a model. An empty `api_key` removes the key; `defaults` are replaced as a whole."""

    base_url: Url | None = None
    model: Name | None = None
    defaults: NewDefaults | None = None
    tokens_per_minute: PerMinute | None = None
    input_price: UsdPerMillion | None = None
    output_price: UsdPerMillion | None = None
    keep_replies: bool | None = None


@router.post("", status_code=201, openapi_extra=openapi.body(NewModel))
async def create(request: Request, services: Served, project: ManagesIn) -> ProjectModel:
    """Create a model. It is not contacted yet: use the test. Its API key is stored encrypted and never returned."""
    return await _create(services, project, await bodies.read_json(request, NewModel))


@router.get("", response_model=list[ProjectModel])
async def list_all(request: Request, services: Served, project: InProject) -> Response:
    """List the models of the project, by key."""
    return await services.large_answers.make(request, _list, services, project)


def _list(services: Services, project: str) -> Response:
    return Response(_MODELS.dump_json(services.store.models.all(project)), media_type="application/json")


@router.get("/{key}")
def get(services: Served, project: InProject, key: str) -> ProjectModel:
    """Get one model."""
    return services.store.models.get(project, key)


@router.patch("/{key}", openapi_extra=openapi.body(ModelChanges))
async def update(request: Request, services: Served, project: ManagesIn, key: str) -> ProjectModel:
    """Change the given fields. A new base URL needs the API key again, because the key was given for the old one."""
    return await _update(services, project, key, await bodies.read_json(request, ModelChanges))


@router.put("/{key}", openapi_extra=openapi.body(ModelChanges))
async def put(request: Request, services: Served, project: ManagesIn, key: str) -> ProjectModel:
    """Change the given fields of a model. If there is none, create it, which takes `base_url` and `model`."""
    new = await bodies.read_json(request, ModelChanges)
    try:
        return await _update(services, project, key, new)
    except NotFound:
        if new.base_url is None or new.model is None:
            raise
        with suppress(KeyTaken):  # meanwhile
            return await _create(services, project, as_new(key, new, NewModel))
    return await _update(services, project, key, new)


async def _create(services: Services, project: str, new: NewModel) -> ProjectModel:
    fields = _given(new)
    _check_prices(new.input_price, new.output_price)
    fields["base_url"] = await run_sync(allowed, services, new.base_url)
    return await run_sync(partial(services.store.models.create, project, **fields))


async def _update(services: Services, project: str, key: str, new: ModelChanges) -> ProjectModel:
    before = await run_sync(services.store.models.get, project, key)  # a missing one is a 404, whatever the changes
    changes = cast(Changes, _given(new))
    input_price = before.input_price if new.input_price is None else new.input_price
    _check_prices(input_price, before.output_price if new.output_price is None else new.output_price)
    if "base_url" in changes:
        changes["base_url"] = await run_sync(allowed, services, changes["base_url"])
    return await run_sync(services.store.models.update, project, key, changes)


@router.post("/{key}/test")
async def test(request: Request, services: Served, project: ManagesIn, key: str) -> ModelTrial:
    """Send the model three requests: a plain one, one with a schema, and one with log probabilities. The capabilities
    found are stored. If the model does not answer, or the project's budget is spent, the request still succeeds:
    `error` describes what happened and what to do. The requests count as spending of the project.
    """
    spending = services.store.spending
    access = await run_sync(services.store.models.access, project, key)
    if (limit := await run_sync(spending.used_up, project)) is not None:
        return _over_budget(limit)
    count = partial(run_sync, partial(spending.count_trial, project, key))
    async with watched(request) as client, client.place(services.trials, project):
        found: ModelTrial = await (await trials()).of_model(access, services.models, count)
    await run_sync(services.store.models.note_trial, project, key, access.server.revision, found)
    return found


def _over_budget(limit: str) -> ModelTrial:
    message = f"the project's budget of {limit} is used up, so the model was not asked: raise it, and test again"
    return ModelTrial(
        passed=False, error=ModelFault(kind="over_budget", message=message, retryable=False), duration_ms=0.0
    )


@router.delete("/{key}", status_code=204)
def delete(services: Served, project: ManagesIn, key: str) -> None:
    """Delete a model and its API key."""
    services.store.models.delete(project, key)


def _given(new: NewModel | ModelChanges) -> dict[str, Any]:
    found = given(new)
    if new.defaults is not None:
        found["defaults"] = ModelDefaults.model_validate(asdict(new.defaults))
    return found


def _check_prices(input_price: float | None, output_price: float | None) -> None:
    if (input_price is None) != (output_price is None):
        raise invalid("a model has both `input_price` and `output_price`, or neither: give both, 0 for what is free")
