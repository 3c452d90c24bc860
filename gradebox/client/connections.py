"""HTTP connections, per process in the blocking client and per event loop in the asynchronous one."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from weakref import WeakSet

import httpx

from gradebox.client.answer_pace import AnswerPace
from gradebox.client.rules import Rules
from gradebox.errors import ClientClosed, GradeboxError

_CLOSED = "this client is closed: make a new one, or close it after its last call"


@contextmanager
def _from_environment() -> Iterator[None]:
    """Raises GradeboxError if httpx cannot use the proxies or the certificates that the environment names."""
    try:
        yield
    except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
        raise GradeboxError(
            f"the proxies or certificates of the environment cannot be used ({error}): check HTTP_PROXY, HTTPS_PROXY, "
            "ALL_PROXY, NO_PROXY (no networks of IPv6), SSL_CERT_FILE and SSL_CERT_DIR"
        ) from error


class ClientConnections:
    """The connections of one process, shared by its threads."""

    def __init__(self, rules: Rules, transport: httpx.BaseTransport | None = None) -> None:
        self._rules = rules
        self._transport = transport
        self._connect()

    def _connect(self) -> None:
        hooks = {"response": [_keep_pace]}
        with _from_environment():
            self._client = httpx.Client(**self._rules.options(), transport=self._transport, event_hooks=hooks)
        self._pid = os.getpid()  # last: until then, other threads do not take the client of the parent for theirs

    def check_open(self) -> None:
        """Raises ClientClosed if the client was closed."""
        if self._client.is_closed:
            raise ClientClosed(_CLOSED)

    @property
    def http(self) -> httpx.Client:
        """The HTTP client of this process. Raises ClientClosed."""
        self.check_open()
        if self._pid != os.getpid():
            self._connect()  # after a fork: the parent continues to use the old connections
        return self._client

    def renew_after(self, error: BaseException) -> None:
        """Makes the next call open new connections: what a signal's handler raises, such as an interrupt, can leave a
        lock of httpcore locked for ever. Other threads keep those that they use.
        """
        if not isinstance(error, GeneratorExit) and not self._client.is_closed:
            self._connect()

    def __reduce__(self) -> tuple[type["ClientConnections"], tuple[Rules]]:
        """Pickles the rules, including the API key. The other process opens new connections."""
        return ClientConnections, (self._rules,)

    def close(self) -> None:
        """Closes the connections of this process."""
        if self._pid == os.getpid():
            self._client.close()


class AsyncClientConnections:
    """The connections of each event loop; a connection belongs to one event loop."""

    def __init__(self, rules: Rules, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._rules = rules
        self._transport = transport
        self._clients: dict[asyncio.AbstractEventLoop, httpx.AsyncClient] = {}
        self._closed: WeakSet[asyncio.AbstractEventLoop] = WeakSet()

    def check_open(self) -> None:
        """Raises ClientClosed if the client was closed in the running event loop."""
        if asyncio.get_running_loop() in self._closed:
            raise ClientClosed(_CLOSED)

    @property
    def http(self) -> httpx.AsyncClient:
        """The HTTP client of the running event loop. Raises ClientClosed if it was closed in this loop."""
        self.check_open()
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            for ended in [each for each in [*self._clients] if each.is_closed()]:
                self._clients.pop(ended, None)  # connections refer to their loop: a weak dict would keep both
            hooks = {"response": [_keep_pace_async]}
            with _from_environment():
                self._clients[loop] = httpx.AsyncClient(
                    **self._rules.options(), transport=self._transport, event_hooks=hooks
                )
        return self._clients[loop]

    def renew_after(self, error: BaseException) -> None:
        """As `ClientConnections.renew_after`."""
        if not isinstance(error, GeneratorExit | asyncio.CancelledError):
            self._clients.pop(asyncio.get_running_loop(), None)

    def __reduce__(self) -> tuple[type["AsyncClientConnections"], tuple[Rules]]:
        """As `ClientConnections`."""
        return AsyncClientConnections, (self._rules,)

    async def close(self) -> None:
        """Closes the connections of the running event loop."""
        loop = asyncio.get_running_loop()
        self._closed.add(loop)
        client = self._clients.pop(loop, None)
        if client is not None:
            await client.aclose()


class _Body(httpx.SyncByteStream):
    """The body of an answer. A reader gets ReadTimeout if it trickles."""

    def __init__(self, stream: httpx.SyncByteStream, pace: AnswerPace) -> None:
        self._stream = stream
        self._pace = pace

    def __iter__(self) -> Iterator[bytes]:
        for block in self._stream:
            self._pace.count(block)
            yield block

    def close(self) -> None:
        self._stream.close()


def _keep_pace(response: httpx.Response) -> None:
    if isinstance(response.stream, httpx.SyncByteStream):
        response.stream = _Body(response.stream, AnswerPace(response.request))


class _AsyncBody(httpx.AsyncByteStream):
    """As `_Body`. It is closed also if its reader is cancelled meanwhile: httpcore would keep the connection open for
    ever.
    """

    def __init__(self, stream: httpx.AsyncByteStream, pace: AnswerPace) -> None:
        self._stream = stream
        self._pace = pace

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for block in self._stream:
            self._pace.count(block)
            yield block

    async def aclose(self) -> None:
        await asyncio.shield(asyncio.ensure_future(self._stream.aclose()))


async def _keep_pace_async(response: httpx.Response) -> None:
    if isinstance(response.stream, httpx.AsyncByteStream):
        response.stream = _AsyncBody(response.stream, AnswerPace(response.request))
