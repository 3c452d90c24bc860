"""Tests an endpoint: whether it returns a reward for a thread."""

from time import monotonic

from gradebox.schemas import EndpointTrial
from models.endpoint_client import EndpointClient
from models.errors import AskFailed
from models.parse_ask import Message, Thread
from models.settings import ModelSettings
from storage.endpoints import EndpointAccess

_THREAD = Thread([Message("user", "What is 2+2?"), Message("assistant", "4")])


async def trial(access: EndpointAccess, settings: ModelSettings) -> EndpointTrial:
    """Have one thread scored. Faults of the server do not raise: a failed test holds the reason."""
    began = monotonic()
    try:
        async with EndpointClient(access, settings) as client:
            found = await client.score(_THREAD)
    except AskFailed as error:
        return EndpointTrial(passed=False, error=error.fault, duration_ms=_since(began))
    return EndpointTrial(passed=True, reward=found.reward, duration_ms=_since(began))


def _since(began: float) -> float:
    return round((monotonic() - began) * 1000, 1)
