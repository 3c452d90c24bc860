"""A client for one reward server, with the protocol of adaptive-sdk's RewardClient."""

import math
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

from models import parse_reply
from models.addresses import Resolve, look_up, read
from models.answer_json import ANSWER_BYTES
from models.errors import AddressError, AskFailed
from models.parse_ask import DEPTH, Thread, is_deeper
from models.pinned_http import PinnedHttp
from models.settings import ModelSettings
from storage.endpoints import EndpointAccess


class EndpointReward(NamedTuple):
    """The answer of a reward server."""

    reward: float
    metadata: dict[str, Any]


class _Response(msgspec.Struct):
    reward: float
    metadata: msgspec.Raw


_ADVICE = parse_reply.Advice(
    "check the URL, which `/score` is put behind",
    "check the API key of the endpoint",
    "check the URL, which `/score` is put behind, and that the server takes this thread and its metadata",
)
_response = msgspec.json.Decoder(_Response)
_metadata = msgspec.json.Decoder(dict[str, Any])


class EndpointClient:
    """Asks one endpoint. Use it as a context manager; inside, `host` is the host that is asked."""

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
            base = read(access.url)
        except AddressError as error:
            raise AskFailed("refused", str(error)) from error
        self.host = base.host
        self._http = PinnedHttp(base, access.api_key, self._settings, self._most_connections, self._resolve)
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._http.__aexit__(kind, error, at)

    async def score(self, thread: Thread) -> EndpointReward:
        """Return the reward of a thread. Raises AskFailed."""
        access = self._access
        sent = {"turns": thread.messages, "metadata": thread.metadata, "id": None}
        answer = await self._http.post("/score", msgspec.json.encode(sent), access.timeout_s)
        if answer.status != 200:
            raise parse_reply.refusal(answer.status, answer.headers, answer.body, access.api_key, _ADVICE)
        try:
            found = _response.decode(answer.body)
            if len(found.metadata) > ANSWER_BYTES:  # not parsed: parsing takes seconds and blocks all projects
                raise AskFailed(
                    "invalid_reply",
                    f"its metadata has {len(found.metadata)} bytes, and may have {ANSWER_BYTES}: answer less",
                )
            metadata = _metadata.decode(found.metadata)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise AskFailed(
                "invalid_reply",
                f"the server answered, but not as a reward server ({error}): check its URL, and that it answers "
                '{"reward": 0.5, "metadata": {}}',
                reply=parse_reply.reported(answer.body, access.api_key, parse_reply.REPLY_CHARACTERS),
            ) from None
        if not math.isfinite(found.reward):
            raise AskFailed("invalid_reply", "the reward is no finite number: look into the server's log")
        if is_deeper(metadata, DEPTH):
            raise AskFailed("invalid_reply", f"its metadata is nested more than {DEPTH} levels deep: make it flatter")
        return EndpointReward(found.reward, metadata)
