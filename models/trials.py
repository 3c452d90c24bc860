"""Tests of the servers that a project registers. Faults of a server do not raise: a failed test holds the reason.

Importing this module is slow, as `models/client.py`.
"""

from time import monotonic
from typing import Any, Literal

import msgspec

from gradebox.schemas import EndpointTrial, ModelTrial
from models.client import ModelClient
from models.endpoint_client import EndpointClient
from models.errors import AskFailed
from models.parse_ask import Message, Thread
from models.settings import ModelSettings
from storage.models import RegisteredModel
from storage.registry import Access, RegisteredServer

_THREAD = Thread([Message("user", "What is 2+2?"), Message("assistant", "4")])
_QUESTION = [{"role": "user", "content": 'Is the sky blue on a clear day? Answer as JSON: {"answer": "yes"}'}]
_SCHEMA: dict[str, Any] = {
    "type": "json_schema",
    "json_schema": {
        "name": "verdict",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"answer": {"type": "string", "enum": ["yes", "no"]}},
            "required": ["answer"],
            "additionalProperties": False,
        },
    },
}


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


async def of_model(access: Access[RegisteredModel], settings: ModelSettings) -> ModelTrial:
    """Ask three times: plainly as every grader does, with a schema, and with log probabilities."""
    began = monotonic()
    try:
        async with ModelClient(access, settings) as client:
            reply = await client.chat(_QUESTION)
            structured = await _fits(client)
            logprobs = await _has_logprobs(client)
    except AskFailed as error:
        return ModelTrial(passed=False, error=error.fault, duration_ms=_since(began))
    return ModelTrial(
        passed=True,
        reply=client.reported(reply.text),
        structured_output=structured,
        logprobs=logprobs,
        duration_ms=_since(began),
    )


async def _fits(client: ModelClient) -> bool:
    try:
        reply = await client.chat(_QUESTION, response_format=_SCHEMA)
        _verdict.decode(reply.text)
    except AskFailed as error:
        return _cannot(error)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


async def _has_logprobs(client: ModelClient) -> bool:
    try:
        return (await client.chat(_QUESTION, logprobs=True)).has_logprobs
    except AskFailed as error:
        return _cannot(error)


def _cannot(error: AskFailed) -> bool:
    """Return False if the server does not support the feature. Raises the error if that is uncertain."""
    if error.fault.retryable:
        raise error
    return False


def _since(began: float) -> float:
    return round((monotonic() - began) * 1000, 1)
