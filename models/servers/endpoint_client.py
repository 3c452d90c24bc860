"""A client for one reward server, with the protocol of adaptive-sdk's RewardClient."""

import math
from typing import Any, NamedTuple

import msgspec

from gradebox.asks import read_reply
from gradebox.score import is_too_deep
from models.errors import AskFailed
from models.parse_ask import DEPTH, Thread
from models.replies import error_answers
from models.replies.answer_json import ANSWER_BYTES
from models.servers.permitted_addresses import Resolve, look_up
from models.servers.pinned_http import PinnedHttp
from models.settings import ModelSettings
from runtime import slow_numbers
from storage.models.registry import Access, RegisteredServer


class EndpointReward(NamedTuple):
    """The answer of a reward server."""

    reward: float
    metadata: dict[str, Any]


class _Response(msgspec.Struct):
    reward: float
    metadata: msgspec.Raw


_ADVICE = error_answers.Advice(
    "check the URL, which `/score` is put behind",
    "check the API key and the headers of the endpoint",
    "check the URL, which `/score` is put behind, and that the server takes this thread and its metadata",
)
_MOST_BYTES = 2 * ANSWER_BYTES  # of an answer: it may repeat the thread
_response = msgspec.json.Decoder(_Response)
_metadata = msgspec.json.Decoder(dict[str, Any])


class EndpointClient(PinnedHttp):
    """Asks one endpoint."""

    def __init__(self, access: Access[RegisteredServer], settings: ModelSettings, resolve: Resolve = look_up) -> None:
        super().__init__(access.server.url, access.sent_headers, access.server.max_concurrency, settings, resolve)
        self._timeout_s = access.server.timeout_s
        self._secrets = access.secrets

    async def score(self, thread: Thread) -> EndpointReward:
        """Return the reward of a thread. Raises AskFailed."""
        sent = {"turns": thread.messages, "metadata": thread.metadata, "id": None}
        answer = await self.post("/score", msgspec.json.encode(sent), self._timeout_s)
        if answer.status != 200:
            raise error_answers.refusal(answer.status, answer.headers, answer.body, self._secrets, _ADVICE)
        if failed := error_answers.failure(answer.body, self._secrets, _ADVICE):  # even beside a reward
            raise failed
        if slow_numbers.are_many(answer.body):
            raise AskFailed("invalid_reply", f"its answer is not read: {slow_numbers.REASON}")
        try:
            found = _response.decode(answer.body)
            if len(found.metadata) > ANSWER_BYTES:  # not parsed: parsing takes seconds and blocks all projects
                raise AskFailed(
                    "invalid_reply",
                    f"its metadata has {len(found.metadata)} bytes, and may have {ANSWER_BYTES}: answer less",
                )
            if len(answer.body) > _MOST_BYTES:
                message = f"its answer has {len(answer.body)} bytes, and may have {_MOST_BYTES}: answer less"
                raise AskFailed("invalid_reply", message)
            read_reply.decoder.decode(answer.body.decode())
            metadata = _metadata.decode(found.metadata)
        except (ValueError, RecursionError) as error:  # ValueError: of msgspec too
            raise AskFailed(
                "invalid_reply",
                f"the server answered, but not as a reward server ({error}): check its URL, and that it answers "
                '{"reward": 0.5, "metadata": {}}',
                reply=error_answers.reported(answer.body, self._secrets, error_answers.REPLY_CHARACTERS),
            ) from None
        if not math.isfinite(found.reward):
            raise AskFailed("invalid_reply", "the reward is no finite number: look into the server's log")
        if is_too_deep(metadata, DEPTH):
            raise AskFailed("invalid_reply", f"its metadata is nested more than {DEPTH} levels deep: make it flatter")
        return EndpointReward(found.reward, metadata)
