"""One call of a reward server: the protocol that adaptive-sdk's RewardClient speaks."""

import math
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

from models import replies
from models.addresses import Resolve, look_up, read
from models.errors import AddressError, ModelError
from models.pinned_http import HttpAnswer, PinnedHttp
from models.requests import DEPTH, Thread, is_deeper
from models.settings import ModelSettings
from storage.endpoints import EndpointAccess


class Reward(NamedTuple):
    """What a reward server answered."""

    reward: float
    metadata: dict[str, Any]


class _Response(msgspec.Struct):
    reward: float
    metadata: dict[str, Any]


_response = msgspec.json.Decoder(_Response)


class EndpointClient:
    """Asks one endpoint. Use it as a context manager, within which `host` is where it is asked."""

    def __init__(
        self, access: EndpointAccess, settings: ModelSettings, resolve: Resolve = look_up, most_connections: int = 1
    ) -> None:
        self._access = access
        self._settings = settings
        self._resolve = resolve
        self._most_connections = most_connections

    async def __aenter__(self) -> Self:
        access = self._access
        try:
            place = read(access.url)
        except AddressError as error:
            raise ModelError("refused", str(error)) from error
        self.host = place.host
        self._http = PinnedHttp(place, access.api_key, self._settings, self._most_connections, self._resolve)
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._http.__aexit__(kind, error, at)

    async def score(self, thread: Thread, timeout_s: float | None = None) -> Reward:
        """The reward of a thread. Raises ModelError."""
        access = self._access
        sent = {"turns": thread.messages, "metadata": thread.metadata, "id": None}
        answer = await self._http.post("/score", msgspec.json.encode(sent), timeout_s or access.timeout_s)
        if answer.status != 200:
            raise _refusal(answer, access.api_key)
        try:
            found = _response.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ModelError(
                "invalid_reply",
                f"the server answered, but not as a reward server ({error}): check its URL, and that it answers "
                '{"reward": 0.5, "metadata": {}}',
                reply=replies.told(answer.body, access.api_key, replies.REPLY_TOLD),
            ) from None
        if not math.isfinite(found.reward):
            raise ModelError("invalid_reply", "the reward is no finite number: look into the server's log")
        if is_deeper(found.metadata, DEPTH):
            raise ModelError("invalid_reply", f"its metadata is nested more than {DEPTH} levels deep: make it flatter")
        return Reward(found.reward, found.metadata)


def _refusal(answer: HttpAnswer, api_key: str) -> ModelError:
    """What an answer of another status than 200 means: that of a model, with other things to look at."""
    error = replies.refusal(answer.status, answer.headers, answer.body, api_key)
    if error.fault.retryable or answer.status < 400:
        return error
    advice = "check the API key" if answer.status in (401, 403) else "check the URL, which `/score` is put behind"
    message = f"the server answered {answer.status} ({replies.told(answer.body, api_key)}): {advice}"
    return ModelError(error.fault.kind, message, status=answer.status, reply=error.reply)
