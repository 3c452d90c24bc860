"""Tests of the servers that a project registers. Faults of a server do not raise: a failed test holds the reason.

Importing this module is slow, as `models/servers/client.py`.
"""

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Literal

import msgspec

from gradebox.asks.schema import object_of
from gradebox.outcome import Spent
from gradebox.schemas import EndpointTrial, ModelTrial
from models.errors import AskFailed
from models.parse_ask import Message, Thread
from models.replies.chat_completion import ServerReply
from models.replies.token_counts import spent_by
from models.servers.client import ModelClient
from models.servers.endpoint_client import EndpointClient
from models.settings import ModelSettings
from storage.models.models import Price, RegisteredModel
from storage.models.registry import Access, RegisteredServer

Count = Callable[[Spent], Awaitable[None]]

_THREAD = Thread([Message("user", "What is 2+2?"), Message("assistant", "4")])
_QUESTION = [{"role": "user", "content": 'Is the sky blue on a clear day? Answer as JSON: {"answer": "yes"}'}]
_ANSWER = object_of({"answer": {"type": "string", "enum": ["yes", "no"]}})
_SCHEMA = {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": _ANSWER}}


class _Verdict(msgspec.Struct, forbid_unknown_fields=True):
    answer: Literal["yes", "no"]


_verdict = msgspec.json.Decoder(_Verdict)


async def of_endpoint(access: Access[RegisteredServer], settings: ModelSettings) -> EndpointTrial:
    """Have one thread scored."""
    began = monotonic()
    try:
        async with EndpointClient(access, settings) as client:
            found = await client.score(_THREAD)
    except AskFailed as error:
        return EndpointTrial(passed=False, error=error.fault, duration_ms=_since(began))
    return EndpointTrial(passed=True, reward=found.reward, duration_ms=_since(began))


class _Asking:
    """Asks the question, and passes the cost of each ask to `count`, also of one that failed."""

    def __init__(self, client: ModelClient, price: Price | None, count: Count) -> None:
        self._client = client
        self._price = price
        self._count = count

    async def ask(self, **options: Any) -> ServerReply:
        """Ask with these further fields of the request. Raises AskFailed."""
        try:
            reply = await self._client.chat(_QUESTION, **options)
        except AskFailed as error:
            await self._count(spent_by(self._price, error.usage))
            raise
        await self._count(spent_by(self._price, reply.usage))
        return reply


async def of_model(access: Access[RegisteredModel], settings: ModelSettings, count: Count) -> ModelTrial:
    """Ask three times: plainly as every grader does, with a schema, and with log probabilities. `count` is called with
    the cost of each ask once it is answered.
    """
    began = monotonic()
    try:
        async with ModelClient(access, settings) as client:
            asking = _Asking(client, access.server.price, count)
            reply = await asking.ask()
            structured = await _fits(asking)
            logprobs = await _has_logprobs(asking)
    except AskFailed as error:
        return ModelTrial(passed=False, error=error.fault, duration_ms=_since(began))
    return ModelTrial(
        passed=True,
        reply=client.reported(reply.text),
        structured_output=structured,
        logprobs=logprobs,
        duration_ms=_since(began),
    )


async def _fits(asking: _Asking) -> bool:
    try:
        reply = await asking.ask(response_format=_SCHEMA)
        _verdict.decode(reply.text)
    except AskFailed as error:
        return _cannot(error)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


async def _has_logprobs(asking: _Asking) -> bool:
    try:
        return (await asking.ask(logprobs=True)).has_logprobs
    except AskFailed as error:
        return _cannot(error)


def _cannot(error: AskFailed) -> bool:
    """Return False if the server does not support the feature. Raises the error if that is uncertain."""
    if error.fault.retryable:
        raise error
    return False


def _since(began: float) -> float:
    return round((monotonic() - began) * 1000, 1)
