"""Clients with their connections for each model and endpoint of a project, kept open while they are used."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from time import monotonic
from typing import Any, Generic, TypeVar

from redis.exceptions import RedisError

from models import store_calls
from models.fair_threads import FairThreads
from models.servers.client import ModelClient
from models.servers.endpoint_client import EndpointClient
from models.servers.permitted_addresses import Resolve, find
from models.settings import ModelSettings
from storage.connection import is_away, trouble_of
from storage.models.registry import Access, Record

_FRESH_S = 2.0  # maximum delay until a change of a model takes effect in a call that scores already
_IDLE_S = 60.0
_LOOK_UPS = 16  # concurrent name look-ups
_NAME_S = 10.0  # lifetime of a name's addresses; they are checked at each use

_log = logging.getLogger(__name__)

Client = TypeVar("Client", ModelClient, EndpointClient)


class AddressCache:
    """Addresses of names, looked up once for all asks of a project within some seconds. A project whose name server is
    slow, or never answers, cannot occupy the threads of others.
    """

    def __init__(self, find: Callable[[str, int], Sequence[str]] = find) -> None:
        self._find = find
        self._threads: FairThreads[Sequence[str]] = FairThreads("names", _LOOK_UPS)
        self._found: dict[tuple[str, str, int], tuple[float, asyncio.Task[list[str]]]] = {}

    async def resolve(self, project: str, host: str, port: int) -> list[str]:
        """Return the addresses of a name. Raises OSError."""
        now = monotonic()
        at, task = self._found.get((project, host, port), (0.0, None))
        if task is None or now - at > _NAME_S or _has_failed(task):
            self._found = {key: found for key, found in self._found.items() if now - found[0] <= _NAME_S}
            task = asyncio.create_task(self._look_up(project, host, port))
            self._found[project, host, port] = now, task
        return await asyncio.shield(task)

    def close(self) -> None:
        """Stop looking up names."""
        self._threads.close()

    async def _look_up(self, project: str, host: str, port: int) -> list[str]:
        looking: Future[Sequence[str]] = self._threads.submit(project, partial(self._find, host, port))
        found: Sequence[str] = await asyncio.wrap_future(looking)
        return list(found)


class Used(Generic[Record, Client]):
    """A model or endpoint in use."""

    def __init__(self, access: Access[Record], client: Client) -> None:
        self.access: Access[Record] = access
        self.client: Client = client
        self.asks = 0
        self.used_at = monotonic()


class Clients(Generic[Record, Client]):
    """The clients of all models, or of all endpoints. For one event loop."""

    def __init__(
        self,
        access: Callable[[str, str], Access[Record]],
        make: Callable[[Access[Record], ModelSettings, Resolve], Client],
        settings: ModelSettings,
        names: AddressCache,
    ) -> None:
        self._access: Callable[[str, str], Access[Record]] = access
        self._make: Callable[[Access[Record], ModelSettings, Resolve], Client] = make
        self._settings = settings
        self._names = names
        self._looked_up: dict[tuple[str, str], tuple[float, asyncio.Task[Access[Record]]]] = {}
        self._looking: set[asyncio.Task[Access[Record]]] = set()
        self._used: dict[tuple[str, str, int, str], asyncio.Task[Used[Record, Client]]] = {}

    async def get(self, project: str, key: str, since: float) -> Used[Record, Client]:
        """Return the client of a model or endpoint with its settings, read from Redis at `since` or later.

        Raises:
            NotFound: the project has no model or endpoint of this key.
            SecretKeyError: its API key cannot be decrypted.
            AskFailed: its URL is invalid.
            RedisError: Redis does not answer.
        """
        access = await self._current(project, key, since)
        server = access.server
        name = project, key, server.revision, server.url  # not the revision alone: two records may have the same one
        task = self._used.get(name)
        if task is None or _has_failed(task):
            task = self._used[name] = asyncio.create_task(self._open(project, access))
        used = await asyncio.shield(task)
        used.access = access
        used.used_at = monotonic()
        return used

    def end(self) -> None:
        """Stop looking up settings."""
        for task in self._looking:
            task.cancel()

    async def close_idle(self, idle_s: float = _IDLE_S) -> None:
        """Close the clients that have not been used for `idle_s`."""
        now = monotonic()
        self._looked_up = {
            key: (at, task) for key, (at, task) in self._looked_up.items() if now - at <= _FRESH_S or not task.done()
        }
        for name, task in list(self._used.items()):
            if _has_failed(task):
                del self._used[name]
            elif task.done() and not (used := task.result()).asks and now - used.used_at >= idle_s:
                del self._used[name]
                await used.client.__aexit__(None, None, None)

    async def _current(self, project: str, key: str, since: float) -> Access[Record]:
        now = monotonic()
        at, task = self._looked_up.get((project, key), (0.0, None))
        if task is None or at < since or _has_failed(task) or (task.done() and now - at > _FRESH_S):
            task = asyncio.create_task(self._look_up(project, key))
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)
            self._looked_up[project, key] = now, task
        return await asyncio.shield(task)

    async def _look_up(self, project: str, key: str) -> Access[Record]:
        """The current settings. If Redis is away, this waits, as elsewhere: a failed ask would become an outcome."""
        ends = monotonic() + store_calls.AWAY_S
        while True:
            try:
                return await asyncio.to_thread(self._access, project, key)
            except RedisError as error:
                if not is_away(error) or monotonic() > ends:
                    raise
                _log.warning("%s, the settings of %s are read again: %s", trouble_of(error), key, error)
            await asyncio.sleep(store_calls.AGAIN_S)

    async def _open(self, project: str, access: Access[Record]) -> Used[Record, Client]:
        client = self._make(access, self._settings, partial(self._names.resolve, project))
        await client.__aenter__()
        return Used(access, client)


def _has_failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
