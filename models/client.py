"""One call of a model: a chat completion, through `openai`. Loading this takes a second: load it where it is needed."""

import logging
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx2 as httpx
from anyio import fail_after
from anyio.to_thread import run_sync
from openai import APIConnectionError, APIStatusError, AsyncOpenAI

from models import replies
from models.addresses import Policy, Resolve, look_up, read
from models.errors import AddressError, ModelError, ReplyTooLarge
from models.settings import ModelSettings
from models.transport import PinnedTransport
from storage.models import ModelAccess

for _name in ("httpcore2", "httpx2", "openai"):  # they log requests, and at `debug` what servers answer
    logging.getLogger(_name).setLevel(logging.WARNING)


class ModelClient:
    """Asks one model. Use it as a context manager."""

    def __init__(self, access: ModelAccess, settings: ModelSettings, resolve: Resolve = look_up) -> None:
        self._access = access
        self._settings = settings
        self._resolve = resolve
        self._http: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        try:
            self._openai = await run_sync(self._open)
        except AddressError as error:
            raise ModelError("refused", str(error)) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._http is not None:
            await self._http.aclose()

    def _open(self) -> AsyncOpenAI:
        """Loads certificates, which takes too long for an event loop."""
        place, settings = read(self._access.base_url), self._settings
        most_bytes = settings.model_reply_kb * 1024
        transport = PinnedTransport(place, Policy(settings), self._access.api_key, most_bytes, self._resolve)
        timeout = httpx.Timeout(self._access.timeout_s, connect=settings.model_connect_s)
        self._http = httpx.AsyncClient(transport=transport, timeout=timeout, trust_env=False, follow_redirects=False)
        # The transport alone has the key, and lets none of the headers through that the environment may set.
        return AsyncOpenAI(api_key="-", base_url=place.url, http_client=self._http, timeout=timeout, max_retries=0)

    async def chat(self, messages: Sequence[Mapping[str, object]], **options: Any) -> replies.Reply:
        """The reply to these messages; `options` are further members of the request. Raises ModelError."""
        access = self._access
        wanted: Any = {"model": access.model, "messages": messages}
        wanted |= access.defaults.model_dump(exclude_none=True) | options
        try:
            with fail_after(access.timeout_s):  # of all of it: a byte now and then does not make it longer
                answer = await self._openai.chat.completions.with_raw_response.create(**wanted)
        except TimeoutError:
            raise _slow(access.timeout_s) from None
        except APIStatusError as error:  # told `from None`: it repeats the answer, which may repeat the key
            response = error.response
            raise replies.refusal(response.status_code, response.headers, response.content, access.api_key) from None
        except (APIConnectionError, httpx.HTTPError, AddressError, ReplyTooLarge) as error:
            raise _failed(error, access.timeout_s) from None
        return replies.read(answer.http_response.content, access.api_key)

    def told(self, text: str) -> str:
        """The beginning of a reply, to be shown: without the API key, which a server may repeat."""
        return replies.told(text.encode("utf-8", "replace"), self._access.api_key)


def _failed(error: BaseException, timeout_s: float) -> ModelError:
    """What a request came to that got no answer. `openai` wraps what its transport raises."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, AddressError):
            return ModelError("refused", str(cause))
        if isinstance(cause, ReplyTooLarge):
            return ModelError("invalid_reply", f"the reply is not read, as {cause}")
        if isinstance(cause, httpx.ConnectTimeout):
            detail = "the server took no connection in time: check that it runs and can be reached from the service"
            return ModelError("unreachable", detail, True)
        if isinstance(cause, httpx.TimeoutException):
            return _slow(timeout_s)
        if isinstance(cause, httpx.ConnectError):
            detail = f"the server could not be reached ({cause}): check the base URL, and that it runs"
            return ModelError("unreachable", detail, True)
        if isinstance(cause, httpx.RemoteProtocolError):
            detail = "the server broke off, or answered with what is no HTTP: look into its log, and ask again"
            return ModelError("unreachable", detail, True)
        cause = cause.__cause__
    return ModelError("unreachable", f"the connection failed ({type(error).__name__}): ask again", True)


def _slow(timeout_s: float) -> ModelError:
    detail = f"there was no whole reply within {timeout_s:g} s: ask again, or raise the model's `timeout_s`"
    return ModelError("unreachable", detail, True)
