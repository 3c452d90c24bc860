"""A client for chat completions of one model. Importing this module is slow: import it where it is needed."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from models.parse_ask import Message
from models.replies import chat_completion, error_answers
from models.servers.permitted_addresses import Resolve, look_up
from models.servers.pinned_http import PinnedHttp
from models.settings import ModelSettings
from storage.models.models import RegisteredModel
from storage.models.registry import Access


class ModelClient(PinnedHttp):
    """Asks one model.

    Attributes:
        takes_schemas: whether the server supports JSON schemas, as far as is known.
    """

    def __init__(self, access: Access[RegisteredModel], settings: ModelSettings, resolve: Resolve = look_up) -> None:
        super().__init__(access.server.url, access.sent_headers, access.server.max_concurrency, settings, resolve)
        self._model = access.server
        self._secrets = access.secrets
        self.takes_schemas = True

    async def chat(
        self, messages: Sequence[Mapping[str, object] | Message], **options: Any
    ) -> chat_completion.ServerReply:
        """Return the reply to these messages; `options` are further fields of the request. Raises AskFailed."""
        wanted = {"model": self._model.model, "messages": messages, **self._model.defaults, **options}
        answer = await self.post("/chat/completions", msgspec.json.encode(wanted), self._model.timeout_s)
        if answer.status != 200:
            raise error_answers.refusal(answer.status, answer.headers, answer.body, self._secrets)
        return chat_completion.read(answer.body, self._secrets)

    def reported(self, text: str) -> str:
        """Return the beginning of a reply for display, without the API key, which a server may repeat."""
        return error_answers.reported(text.encode("utf-8", "replace"), self._secrets)
