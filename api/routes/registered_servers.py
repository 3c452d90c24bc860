"""Common parts of the routes of models and endpoints, the servers that a project registers."""

from importlib import import_module
from types import ModuleType
from typing import Annotated, Any, TypeVar

import msgspec
from anyio.to_thread import run_sync
from msgspec.structs import asdict

from api.http.problems import ProblemError, invalid
from api.intake import bodies
from api.intake.source_upload import Key
from api.services import Services
from models.errors import AddressError
from models.servers.permitted_addresses import Policy, read
from storage.models.registry import MAX_CONCURRENCY

TIMEOUT_S = 120.0

New = TypeVar("New", bound="NewServer")
Url = Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
Secret = Annotated[
    str,
    msgspec.Meta(max_length=4096, pattern=r"^[!-~]*(?!\n)$", description="visible ASCII characters, without spaces"),
]
Timeout = Annotated[float, msgspec.Meta(ge=1, le=600)]
Concurrency = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
PerMinute = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000, description="0: no limit")]


class NewServer(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A new server, with the key to send."""

    key: Key
    api_key: Secret = ""
    timeout_s: Timeout = TIMEOUT_S
    max_concurrency: Concurrency = MAX_CONCURRENCY
    requests_per_minute: PerMinute = 0


class ServerChanges(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The changes of a server. An empty `api_key` removes the key."""

    api_key: Secret | None = None
    timeout_s: Timeout | None = None
    max_concurrency: Concurrency | None = None
    requests_per_minute: PerMinute | None = None


def given(new: NewServer | ServerChanges) -> dict[str, Any]:
    """Returns the members that are not None. A limit of 0 a minute becomes None."""
    found = {name: value for name, value in asdict(new).items() if value is not None}
    return {name: value or None if name.endswith("_per_minute") else value for name, value in found.items()}


def as_new(key: str, new: ServerChanges, kind: type[New]) -> New:
    """Returns the changes as a new server. Raises ProblemError if the key is invalid."""
    return bodies.convert({"key": key, **{name: of for name, of in asdict(new).items() if of is not None}}, kind)


def allowed(services: Services, url: str) -> str:
    """Normalises the URL. Raises ProblemError if it is invalid, or the operator does not allow its host."""
    try:
        place = read(url)
    except AddressError as error:
        raise invalid(str(error)) from None
    try:
        Policy(services.models).check(place)
    except AddressError as error:
        raise ProblemError(403, "forbidden", str(error)) from None
    return place.url


async def trials() -> ModuleType:
    """The module with the tests of servers. Loading it takes a second: it is done in a thread, and not at the start."""
    return await run_sync(import_module, "models.servers.server_trials")
