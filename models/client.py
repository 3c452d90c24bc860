"""A client for chat completions of one model. Importing this module is slow: import it where it is needed."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec

from models import parse_reply
from models.addresses import Resolve, look_up, read
from models.errors import AddressError, AskFailed
from models.parse_ask import Message
from models.pinned_http import PinnedHttp
from models.settings import ModelSettings
from storage.models import ModelAccess


class ModelClient:
    """Asks one model. Use it as a context manager; inside, `host` is the host that is asked.

    Attributes:
        takes_schemas: whether the server supports JSON schemas, as far as is known.
    """

    def __init__(
        self, access: ModelAccess, settings: ModelSettings, resolve: Resolve = look_up, most_connections: int = 1
    ) -> None:
        self._access = access
        self._settings = settings
        self._resolve = resolve
        self._most_connections = most_connections
        self.takes_schemas = True

    async def __aenter__(self) -> Self:
        access = self._access
        try:
            base = read(access.base_url)
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

    async def chat(self, messages: Sequence[Mapping[str, object] | Message], **options: Any) -> parse_reply.ServerReply:
        """Return the reply to these messages; `options` are further fields of the request. Raises AskFailed."""
        access = self._access
        wanted = {"model": access.model, "messages": messages}
        wanted |= access.defaults.model_dump(exclude_none=True) | options
        answer = await self._http.post("/chat/completions", msgspec.json.encode(wanted), access.timeout_s)
        if answer.status != 200:
            raise parse_reply.refusal(answer.status, answer.headers, answer.body, access.api_key)
        return parse_reply.read(answer.body, access.api_key)

    def reported(self, text: str) -> str:
        """Return the beginning of a reply for display, without the API key, which a server may repeat."""
        return parse_reply.reported(text.encode("utf-8", "replace"), self._access.api_key)
