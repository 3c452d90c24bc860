"""Asks of servers, on one event loop."""

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from msgspec.structs import replace
from redis.exceptions import RedisError

from gradebox.outcome import Spent, sum_of
from models import store_calls
from models.asks.ask_context import AskContext
from models.asks.ask_counts import AskCounts
from models.asks.ask_spending import AskSpending, BatchEnded, OverBudget
from models.asks.equal_asks import EqualAsks
from models.asks.rate_limits import Gate, Gates
from models.asks.retries import send_with_retries
from models.asks.server_connections import ServerConnections
from models.errors import AskFailed, TokenUsage
from models.parse_ask import EndpointRequest, ModelRequest, RequestError, read_thread
from models.replies.answer_json import Answer, failed, failed_by, replied
from models.replies.fitting_reply import fits
from models.replies.token_counts import spent_by
from models.servers.chat import chat
from models.servers.client import ModelClient
from models.servers.client_cache import AddressCache, Clients, Used
from models.servers.endpoint_client import EndpointClient
from models.settings import ModelSettings
from models.store_calls import StoreCalls
from storage.connection import is_away
from storage.errors import NotFound
from storage.models import kept_replies
from storage.models.model_limits import AskLimits
from storage.models.models import Price, RegisteredModel
from storage.models.secret_key import SecretKeyError
from storage.models.spending import CountedAsk
from storage.store import Store

_UsedModel = Used[RegisteredModel, ModelClient]
_LOOK_S = 0.5
_LOOKS_TO_IDLE = 20


class _Changed(Exception):
    """The asked model or endpoint was changed while the ask waited for a place, or while its server did not answer: the
    ask starts over with the new settings."""


class _ServerAsk(NamedTuple):
    """One ask of a server.

    Attributes:
        send: sends it once.
        current: the model or endpoint with its current settings.
        digest: the digest under which a reply is stored; empty for none.
    """

    asked: CountedAsk
    used: Used[Any, Any]
    gate: Gate
    send: Callable[[], Awaitable[Answer]]
    current: Callable[[], Awaitable[Used[Any, Any]]]
    price: Price | None = None
    digest: bytes = b""

    def failed(self, error: AskFailed, spent: Spent) -> Answer:
        """Return the answer for an ask that failed."""
        return failed_by(error, self.used.client.host, self.used.access.secrets, spent)


class ServerAsks:
    """All asks of servers of one process.

    Attributes:
        sends_no_more: whether asks that are not sent yet wait until they are cancelled.
    """

    def __init__(
        self, store: Store, settings: ModelSettings, ask_s: float, counts: AskCounts, *, waits_for_store: bool
    ) -> None:
        self._counts = counts
        self._away_s = None if waits_for_store else store_calls.AWAY_S
        self._connections = ServerConnections()
        self._names = names = AddressCache()
        process = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._calls = StoreCalls(store.redis, process, self._away_s)
        self._spending = AskSpending(self._calls, store.spending, settings, self._away_s)
        self._gates = Gates(self._calls, store.model_limits, process, ask_s)
        self._models = Clients(store.models.access, ModelClient, settings, names)
        self._equal_asks: EqualAsks[Answer] = EqualAsks()
        self._endpoints = Clients(store.endpoints.access, EndpointClient, settings, names)
        self._tasks: dict[asyncio.Task[Any], Callable[[], bool]] = {}
        self._ended = asyncio.Event()
        self._is_closed = False
        self._sent: set[asyncio.Task[Any] | None] = set()
        self.sends_no_more = False

    async def serve(self) -> None:
        """Cancel asks that are no longer needed, and close idle clients, until `end` is called."""
        looks = 0
        while not self._ended.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _LOOK_S)
            self._cancel_unneeded()
            looks += 1
            if looks % _LOOKS_TO_IDLE == 0:
                await self._close_idle()

    def end(self) -> None:
        """End `serve`."""
        self._ended.set()

    @property
    def has_sent(self) -> bool:
        """Whether a sent ask is not answered yet. Thread-safe."""
        return bool(self._sent)

    def places(self, project: str, asked: str) -> int:
        """Return how many asks of this model or endpoint may be sent at once. Thread-safe."""
        return self._gates.places(project, asked)

    async def answer(
        self, request: ModelRequest | EndpointRequest, data: bytes, context: AskContext, wanted: Callable[[], bool]
    ) -> Answer:
        """Answer a request; the answer may be an error."""
        answer = await self._answer(request, data, context, wanted)
        self._counts.add(context.project, request.asked, answer)
        return answer

    async def _answer(
        self, request: ModelRequest | EndpointRequest, data: bytes, context: AskContext, wanted: Callable[[], bool]
    ) -> Answer:
        task = asyncio.current_task()
        assert task is not None
        if self._is_closed:  # the ask was already scheduled
            raise asyncio.CancelledError
        self._tasks[task] = wanted
        try:
            while True:
                try:
                    if isinstance(request, ModelRequest):
                        return await self._ask_model(request, data, context)
                    return await self._ask_endpoint(request, context)
                except _Changed:
                    pass
                except BatchEnded:
                    await asyncio.sleep(_LOOK_S)
                except RedisError as error:  # nothing is paid for yet, because replies wait until they are counted
                    if self._away_s is not None or self._is_closed or not is_away(error):
                        raise
                    await asyncio.sleep(store_calls.AGAIN_S)
        except NotFound:
            return _missing(request, context)
        except SecretKeyError:
            message = f"the API key or a header of {request.name!r} cannot be decrypted: give it again"
            return failed("unreachable", message, True)
        except RedisError as error:
            if not is_away(error) or context.timeouts is not None:  # a proof would report an error of the grader
                raise
            return failed("unreachable", "the service's store does not answer: score it again later", True)
        finally:
            del self._tasks[task]

    async def _ask_model(self, request: ModelRequest, data: bytes, context: AskContext) -> Answer:
        try:
            used = await self._models.get(context.project, request.name, context.since)
        except AskFailed as error:
            return failed_by(error, "", (), Spent())
        model = used.access.server
        asked = _counted_ask(request, context)
        if not (context.keep and model.keep_replies and self._spending.keeps):
            return await self._pay_model(request, context, used, asked, b"")
        digest = kept_replies.digest(model.url, model.model, model.defaults, request=data)
        equal = context.batch, context.grader, context.project, context.timeouts is None, model.revision, digest
        answer, is_first = await self._equal_asks.join(
            equal, lambda: self._find_or_pay(request, context, used, asked, digest)
        )
        if is_first:
            return answer
        if answer.is_error:  # nothing was sent for this one, nor kept
            return answer._replace(spent=Spent())
        spent = Spent(asks=1, kept=1)
        await self._spending.count(asked, spent)
        return answer._replace(spent=spent)

    async def _find_or_pay(
        self, request: ModelRequest, context: AskContext, used: _UsedModel, asked: CountedAsk, digest: bytes
    ) -> Answer:
        used.asks += 1  # so that its connections stay open, however long the store is away
        try:
            found = await self._spending.look(asked, digest)
        finally:
            used.asks -= 1
        if found.reply is not None:
            return Answer(found.reply, Spent(asks=1, kept=1))
        return await self._pay_model(request, context, used, asked, digest)

    async def _pay_model(
        self, request: ModelRequest, context: AskContext, used: _UsedModel, asked: CountedAsk, digest: bytes
    ) -> Answer:
        model = used.access.server
        limits = AskLimits(model.max_concurrency, model.requests_per_minute, model.tokens_per_minute)
        gate = self._gates.get(asked.project, asked.asked, model.account, limits)

        async def send() -> Answer:
            reply = await chat(used.client, model, request, gate.note_request)
            gate.note_reply(sum(reply.usage))
            usage = {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens}
            reported = {"text": reply.text, "finish_reason": reply.finish_reason, "usage": usage}
            answer = replied(reported, spent_by(model.price, reply.usage), used.access.secrets)
            if not digest or answer.is_error:
                return answer
            sent = [message.content for message in request.messages]
            return answer._replace(is_fitting=fits(reply.text, request.schema, sent))

        current = partial(self._models.get, context.project, request.name, context.since)
        return await self._ask(_ServerAsk(asked, used, gate, send, current, model.price, digest), context)

    async def _ask_endpoint(self, request: EndpointRequest, context: AskContext) -> Answer:
        try:
            thread = read_thread(request)
            used = await self._endpoints.get(context.project, request.name, context.since)
        except RequestError as error:
            return failed("refused", str(error))
        except AskFailed as error:
            return failed_by(error, "", (), Spent())
        endpoint = used.access.server
        asked = _counted_ask(request, context)
        limits = AskLimits(endpoint.max_concurrency, endpoint.requests_per_minute)
        gate = self._gates.get(asked.project, asked.asked, endpoint.account, limits)

        async def send() -> Answer:
            found = await used.client.score(thread)
            gate.note_answer()
            return replied({"reward": found.reward, "metadata": found.metadata}, Spent(asks=1), used.access.secrets)

        current = partial(self._endpoints.get, context.project, request.name, context.since)
        return await self._ask(_ServerAsk(asked, used, gate, send, current), context)

    async def _ask(self, ask: _ServerAsk, context: AskContext) -> Answer:
        """Asks a server. A reply that fits is stored, and the cost counted, before it is returned.

        If there is a budget, the place is freed only after counting, so that the next ask sees the spending. Before a
        retry, what the failed try cost is counted.
        """
        asked, is_unpriced = ask.asked, ask.price is None and ask.asked.asked.startswith("model:")
        lost = Spent()  # what tries cost that failed; the first of them counts the ask

        async def pay(usage: TokenUsage) -> None:
            nonlocal lost
            spent = replace(spent_by(ask.price, usage), asks=1 - lost.asks)
            lost = sum_of((lost, spent))
            await self._spending.wait_for(self._spending.count(asked, spent))
            await self._spending.check(asked, is_unpriced, context)

        ask.used.asks += 1
        try:
            async with ask.gate.place(context.has_asked):
                if (await ask.current()).access.server.account != ask.used.access.server.account:
                    raise _Changed  # it may have waited for minutes, and another server or key is to be used now
                if context.timeouts is not None:
                    context.timeouts.check(asked.asked)
                has_budget = await self._spending.check(asked, is_unpriced, context)
                if self.sends_no_more:
                    await asyncio.Event().wait()
                answer = await self._send(ask, context, pay)
                keep = ask.digest if answer.is_fitting and not answer.is_error else b""
                spent = replace(answer.spent, asks=1 - lost.asks)
                counted = self._spending.count(asked, spent, keep, answer.body)
                if has_budget:
                    await self._spending.wait_for(counted)
            if not has_budget:
                await self._spending.wait_for(counted)
            return answer._replace(spent=sum_of((spent, lost)))
        except OverBudget as error:
            return failed("over_budget", str(error), spent=lost)
        except AskFailed as error:
            return ask.failed(error, lost)  # it was not sent, or not again
        finally:
            ask.used.asks -= 1
            self._sent.discard(asyncio.current_task())

    async def _send(self, ask: _ServerAsk, context: AskContext, pay: Callable[[TokenUsage], Awaitable[None]]) -> Answer:
        """Sends an ask that has a place. `pay` is called with the tokens of a failed try before the next."""

        async def look() -> None:
            if await ask.current() is not ask.used:
                raise _Changed

        self._sent.add(asyncio.current_task())
        began = monotonic()
        try:
            async with self._connections.of(ask.asked.project):
                return await send_with_retries(ask.send, look, ask.gate, context.timeouts, pay)
        except AskFailed as error:
            reported = error if context.timeouts is None else context.timeouts.reported(ask.asked.asked, error)
            return ask.failed(reported, spent_by(ask.price, error.usage))
        finally:
            self._counts.waited(ask.asked.project, ask.asked.asked, monotonic() - began)

    def _cancel_unneeded(self) -> None:
        answers: dict[Callable[[], bool], bool] = {}
        for task, wanted in list(self._tasks.items()):
            if wanted not in answers:
                answers[wanted] = wanted()
            if not answers[wanted]:
                task.cancel()

    async def close(self) -> None:
        """Cancel all asks, and close all connections."""
        self._is_closed = True
        self._calls.end()
        self._models.end()
        self._endpoints.end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._equal_asks.close()
        await self._gates.close()
        await self._close_idle(0)
        self._names.close()
        await self._calls.close()

    async def _close_idle(self, *idle_s: float) -> None:
        await self._models.close_idle(*idle_s)
        await self._endpoints.close_idle(*idle_s)
        self._gates.forget_idle()


def _missing(request: ModelRequest | EndpointRequest, context: AskContext) -> Answer:
    """The error of a model or endpoint that was there at the test run and is not now. Outcomes of a batch can be scored
    again once it is back; any other caller would repeat the request at once, and get the same error.
    """
    kind = request.asked.partition(":")[0]
    if not context.batch:
        return failed("unknown", f"the project has no {kind} {request.name!r}: register it, or name another")
    message = (
        f"the project no longer has the {kind} {request.name!r}, which was deleted: create it again with this key, and "
        "retry the batch"
    )
    return failed("unknown", message, retryable=True)


def _counted_ask(request: ModelRequest | EndpointRequest, context: AskContext) -> CountedAsk:
    return CountedAsk(context.project, request.asked, context.grader, context.batch, context.number)
