"""Asks of servers, on one event loop: from a request to an answer."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from gradebox.outcome import Spent
from models.answers import Answer, failed, failed_by, replied
from models.chat import chat
from models.client import ModelClient
from models.clients import Clients, Names
from models.endpoint_client import EndpointClient
from models.errors import ModelError, Usage
from models.requests import EndpointRequest, ModelRequest
from models.settings import ModelSettings
from storage.connection import is_away
from storage.endpoints import EndpointAccess
from storage.errors import NotFound
from storage.models import ModelAccess
from storage.secret_key import SecretKeyError
from storage.store import Store

if TYPE_CHECKING:
    from models.asker import Who

_LOOK_S = 0.5
_LOOKS_TO_IDLE = 20


class Asking:
    """All that is asked of servers in one process."""

    def __init__(self, store: Store, settings: ModelSettings) -> None:
        names = Names()
        self._models = Clients(store.models.access, _model_client, settings, names)
        self._endpoints = Clients(store.endpoints.access, _endpoint_client, settings, names)
        self._tasks: dict[asyncio.Task[Any], Callable[[], bool]] = {}
        self._ended = asyncio.Event()

    async def serve(self) -> None:
        """Runs until it is ended. Meanwhile it gives up what is not wanted any more."""
        looks = 0
        while not self._ended.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _LOOK_S)
            self._give_up_unwanted()
            looks += 1
            if looks % _LOOKS_TO_IDLE == 0:
                await self._close_idle()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._close_idle(0)

    def end(self) -> None:
        """Ends `serve`."""
        self._ended.set()

    async def answer(
        self, request: ModelRequest | EndpointRequest, data: bytes, who: "Who", wanted: Callable[[], bool]
    ) -> Answer:
        """The answer to a request, which may be that it failed."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = wanted
        try:
            if isinstance(request, ModelRequest):
                return await self._ask_model(request, data, who)
            return await self._ask_endpoint(request, who)
        except NotFound:
            kind = "model" if isinstance(request, ModelRequest) else "endpoint"
            return failed("unknown", f"the project has no {kind} {request.name!r}: register it, or name another")
        except SecretKeyError:
            return failed("unreachable", f"the API key of {request.name!r} cannot be decrypted: give it again", True)
        except RedisError as error:
            if not is_away(error):
                raise
            return failed("unreachable", "the service's store does not answer: score it again later", True)
        finally:
            del self._tasks[task]

    async def _ask_model(self, request: ModelRequest, data: bytes, who: "Who") -> Answer:
        used = await self._models.get(who.project, request.name)
        access = used.access
        try:
            reply = await chat(used.client, access, request, access.timeout_s)
        except ModelError as error:
            return failed_by(error, used.host, access.api_key, _spent(access, error.usage))
        usage = {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens}
        told = {"text": reply.text, "finish_reason": reply.finish_reason, "usage": usage}
        return replied(told, _spent(access, reply.usage))

    async def _ask_endpoint(self, request: EndpointRequest, who: "Who") -> Answer:
        used = await self._endpoints.get(who.project, request.name)
        try:
            found = await used.client.score(request.thread)
        except ModelError as error:
            return failed_by(error, used.host, used.access.api_key, Spent(asks=1))
        return replied({"reward": found.reward, "metadata": found.metadata}, Spent(asks=1))

    def _give_up_unwanted(self) -> None:
        answers: dict[Callable[[], bool], bool] = {}
        for task, wanted in self._tasks.items():
            if wanted not in answers:
                answers[wanted] = wanted()
            if not answers[wanted]:
                task.cancel()

    async def _close_idle(self, *idle_s: float) -> None:
        await self._models.close_idle(*idle_s)
        await self._endpoints.close_idle(*idle_s)


def _model_client(access: ModelAccess, settings: ModelSettings, names: Names) -> ModelClient:
    return ModelClient(access, settings, names.resolve, access.max_concurrency)


def _endpoint_client(access: EndpointAccess, settings: ModelSettings, names: Names) -> EndpointClient:
    return EndpointClient(access, settings, names.resolve, access.max_concurrency)


def _spent(access: ModelAccess, usage: Usage) -> Spent:
    """What one ask cost."""
    price = access.price
    cost = (usage.input_tokens * price.input + usage.output_tokens * price.output) / 1e6 if price else 0.0
    return Spent(1, 0, usage.input_tokens, usage.output_tokens, cost)
