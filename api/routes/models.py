"""Models of a project: servers of chat completions, with their keys."""

from importlib import import_module
from typing import Annotated

import msgspec
from anyio.to_thread import run_sync
from fastapi import APIRouter, Request

from api.access.auth import InProject, ManagesIn
from api.access.callers import watched
from api.http import openapi
from api.http.problems import ProblemError, invalid
from api.intake import bodies
from api.services import Served, Services
from gradebox.schemas import KEY_PATTERN, ModelDefaults, ModelTrial, ProjectModel
from models.addresses import Policy, read
from models.errors import AddressError, ModelError
from models.trial import trial
from storage.models import Changes, ModelAccess

TIMEOUT_S = 120.0

Key = Annotated[str, msgspec.Meta(pattern=KEY_PATTERN)]
BaseUrl = Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
Secret = Annotated[str, msgspec.Meta(max_length=4096, pattern=r"^[!-~]*(?!\n)$")]
Timeout = Annotated[float, msgspec.Meta(ge=1, le=600)]

router = APIRouter(prefix="/models", tags=["models"])


class NewDefaults(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is sent with each request, unless the request says otherwise."""

    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    seed: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] | None = None


class NewModel(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A model to be kept: where it is, its name there, and the key to send."""

    key: Key
    base_url: BaseUrl
    model: Name
    api_key: Secret = ""
    defaults: NewDefaults = msgspec.field(default_factory=NewDefaults)
    timeout_s: Timeout = TIMEOUT_S


class ModelChanges(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is to be changed of a model. An empty `api_key` removes the key; `defaults` are replaced as a whole."""

    base_url: BaseUrl | None = None
    model: Name | None = None
    api_key: Secret | None = None
    defaults: NewDefaults | None = None
    timeout_s: Timeout | None = None


@router.post("", status_code=201, openapi_extra=openapi.body(NewModel))
async def create(request: Request, services: Served, project: ManagesIn) -> ProjectModel:
    """Keeps a model. Nothing is asked of it yet: test it. Its API key is encrypted, and never shown again."""
    new = await bodies.read_json(request, NewModel)
    base_url = await run_sync(_allowed, services, new.base_url)
    defaults = _defaults(new.defaults)
    return await run_sync(
        services.store.models.create, project, new.key, base_url, new.model, new.api_key, defaults, new.timeout_s
    )


@router.get("")
def list_all(services: Served, project: InProject) -> list[ProjectModel]:
    """The models of the project, by key."""
    return services.store.models.all(project)


@router.get("/{key}")
def get(services: Served, project: InProject, key: str) -> ProjectModel:
    """One model."""
    return services.store.models.get(project, key)


@router.patch("/{key}", openapi_extra=openapi.body(ModelChanges))
async def update(request: Request, services: Served, project: ManagesIn, key: str) -> ProjectModel:
    """Changes what is given. Another base URL needs the API key again: it was given for the former."""
    new = await bodies.read_json(request, ModelChanges)
    await run_sync(services.store.models.get, project, key)  # one that is not there is not there for anybody
    changes = Changes()
    if new.base_url is not None:
        changes["base_url"] = await run_sync(_allowed, services, new.base_url)
    if new.model is not None:
        changes["model"] = new.model
    if new.api_key is not None:
        changes["api_key"] = new.api_key
    if new.defaults is not None:
        changes["defaults"] = _defaults(new.defaults)
    if new.timeout_s is not None:
        changes["timeout_s"] = new.timeout_s
    return await run_sync(services.store.models.update, project, key, changes)


@router.post("/{key}/test")
async def test(request: Request, services: Served, project: ManagesIn, key: str) -> ModelTrial:
    """Asks the model three times: whether it answers, with a schema, and with log probabilities. What its server can do
    is kept. A model that does not answer is no problem of this request: `error` says what happened and what to do.
    """
    access = await run_sync(services.store.models.access, project, key)
    async with watched(request) as client, client.place(services.trials, project):
        found = await _tried(services, access)
    await run_sync(services.store.models.note_trial, project, key, access.revision, found)
    return found


@router.delete("/{key}", status_code=204)
def delete(services: Served, project: ManagesIn, key: str) -> None:
    """Forgets a model and its API key."""
    services.store.models.delete(project, key)


async def _tried(services: Services, access: ModelAccess) -> ModelTrial:
    await run_sync(import_module, "models.client")  # takes a second: neither the start nor other requests wait for it
    from models.client import ModelClient

    try:
        async with ModelClient(access, services.models) as asking:
            return await trial(asking)
    except ModelError as error:
        return ModelTrial(passed=False, error=error.fault, duration_ms=0)


def _allowed(services: Services, base_url: str) -> str:
    """The base URL in one form. Raises ProblemError where it is none, or the operator does not allow its host."""
    try:
        place = read(base_url)
    except AddressError as error:
        raise invalid(str(error)) from None
    try:
        Policy(services.models).check(place)
    except AddressError as error:
        raise ProblemError(403, "forbidden", str(error)) from None
    return place.url


def _defaults(new: NewDefaults) -> ModelDefaults:
    return ModelDefaults.model_validate(msgspec.structs.asdict(new))
