"""What sends calls: once for code that blocks and once for code that awaits, with one set of rules for both."""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Generator, Iterator
from functools import lru_cache
from itertools import count
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import httpx

from gradebox.access import FoundKey, Listeners, find_key, is_local, service_url
from gradebox.client.call import Call, problem_of, refusal
from gradebox.client.outcomes import OutcomeReader
from gradebox.client.threads import Resend, async_blocks, blocks
from gradebox.errors import ConnectionFailed, GradeboxError
from gradebox.outcome import Outcome

T = TypeVar("T")

TRIES = 7  # with the pauses below, some ten seconds: longer than a service takes to restart
FIRST_TRIES = 3
CONNECT_S = 5.0
KEEP_ALIVE_S = 3.0  # less than the 5 s after which servers drop an idle connection, so none is used as it closes
NOT_NOW = {429, 502, 503, 504}
# a wrong key stays one, what took too long would again, and a quota has room when something was deleted
NOT_AGAIN = ("too-many-requests", "timeout", "quota-exceeded")


class Rules:
    """Where the service is, and whether a request that failed is sent again.

    A service that never answered is probably not there, and the user hears so at once; one that has answered before is
    probably restarting, and is waited for.
    """

    def __init__(self, url: str | None, api_key: str | None, timeout: float) -> None:
        self.url = service_url(url)
        self.timeout = timeout
        self.reached = False
        _check_url(self.url)
        self.key = FoundKey(api_key) if api_key else find_key(self.url)
        self.auth = None if self.key is None else Bearer(self.url, self.key)

    def options(self) -> dict[str, Any]:
        """The arguments of an httpx client."""
        return {
            "base_url": self.url,
            "headers": _headers(self.url),
            "auth": self.auth,
            "timeout": httpx.Timeout(self.timeout, connect=CONNECT_S),
            "trust_env": not is_local(self.url),  # no proxy knows the way to this machine
            "limits": httpx.Limits(keepalive_expiry=KEEP_ALIVE_S),
        }

    def request(self, call: Call[Any]) -> dict[str, Any]:
        """The arguments of `httpx.Client.request`, but for a body that is streamed."""
        return {
            "method": call.method,
            "url": _absolute(self.url, call.path, tuple(call.params)),
            "content": call.body,
            "headers": call.headers,
            "timeout": httpx.Timeout(self.timeout, connect=CONNECT_S, read=self.timeout + call.work_s),
        }

    def pause(self, attempt: int, idempotent: bool, failure: httpx.Response | httpx.HTTPError) -> float | None:
        """Seconds to wait before the next try, or None where there is none."""
        if self.auth is not None and isinstance(failure, httpx.HTTPError):
            self.auth.look_again()
        if attempt + 1 >= TRIES or not self._again(attempt, idempotent, failure):
            return None
        asked = failure.headers.get("Retry-After", "") if isinstance(failure, httpx.Response) else ""
        backoff: float = min(5.0, 0.2 * 2**attempt) * random.uniform(0.75, 1.0)  # noqa: S311  # spreads clients, hides nothing
        return max(backoff, min(float(asked), 30.0)) if asked.isdecimal() else backoff

    def _again(self, attempt: int, idempotent: bool, failure: httpx.Response | httpx.HTTPError) -> bool:
        if isinstance(failure, httpx.Response):
            self.reached = True
            return idempotent and failure.status_code in NOT_NOW and not _is_final(failure)
        if isinstance(failure, httpx.ConnectError | httpx.ConnectTimeout):
            return self.reached
        lost = isinstance(failure, httpx.ReadError | httpx.WriteError | httpx.RemoteProtocolError)
        # What breaks off at the very first answer may be no service at all: that is not tried for long.
        return lost and idempotent and (self.reached or attempt < FIRST_TRIES)

    def unreachable(self, error: httpx.HTTPError) -> ConnectionFailed:
        """What a user is told when no try got an answer."""
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return ConnectionFailed(
                f"no service answers at {self.url} ({error}). Start one with `gradebox serve`, "
                "or name another with --url, url= or GRADEBOX_URL"
            )
        if isinstance(error, httpx.TimeoutException):
            return ConnectionFailed(
                f"the service at {self.url} took longer than {self.timeout:g} s to answer: "
                "try again, or give the client a longer timeout"
            )
        return ConnectionFailed(f"the connection to {self.url} broke ({error or type(error).__name__}): try again")


class Bearer(httpx.Auth):
    """Sends an API key. One that was found on this machine is sent while the service that it is for listens."""

    def __init__(self, url: str, key: FoundKey) -> None:
        if not key.secret.isascii() or not key.secret.isprintable():
            raise GradeboxError("the API key holds characters that no key has: check GRADEBOX_API_KEY or api_key=")
        self._header = f"Bearer {key.secret}"
        self._listeners = None if key.owner is None else Listeners(url, key.owner)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Adds the key to a request. Raises NotOurs."""
        if self._listeners is not None and not self._listeners.check():
            raise httpx.ConnectError("nothing on this machine listens there", request=request)
        request.headers["Authorization"] = self._header
        yield request

    def look_again(self) -> None:
        """What is known of the service is out of date: a connection to it broke."""
        if self._listeners is not None:
            self._listeners.forget()


class Transport:
    """Sends calls and blocks until they are answered."""

    def __init__(self, rules: Rules, transport: httpx.BaseTransport | None = None) -> None:
        self.rules = rules
        self._transport = transport
        self._connect()

    def _connect(self) -> None:
        self._pid = os.getpid()
        self._client = httpx.Client(**self.rules.options(), transport=self._transport)

    @property
    def _http(self) -> httpx.Client:
        if self._pid != os.getpid():
            self._connect()  # after a fork: the parent goes on using the old connections
        return self._client

    def __reduce__(self) -> tuple[type["Transport"], tuple[Rules]]:
        """Another process makes connections of its own. The API key goes along."""
        return Transport, (self.rules,)

    def send(self, call: Call[T]) -> T:
        """The answer to a call. Raises GradeboxError."""
        resend = Resend(call.threads)
        for attempt in count():
            body = {"content": blocks(call.threads)} if call.threads is not None else {}
            failure: httpx.Response | httpx.HTTPError
            try:
                failure = self._http.request(**self.rules.request(call) | body)
            except httpx.HTTPError as error:
                failure = error
            pause = self.rules.pause(attempt, call.idempotent and resend.possible, failure)
            if pause is None:
                break
            time.sleep(pause)
            resend.rewind()
        return _settle(call, failure, self.rules, attempt)

    def outcomes(self, path: str, after: int | None) -> Iterator[Outcome]:
        """The outcomes of a batch as they arrive, read on from where a connection broke."""
        reader, attempt = OutcomeReader(after), 0
        while True:
            failure: httpx.Response | httpx.HTTPError
            try:
                with self._http.stream("GET", path, params=reader.params) as response:
                    self.rules.reached = True
                    if response.is_success:
                        for block in response.iter_bytes():
                            attempt = 0
                            yield from reader.feed(block)
                        yield from reader.end()
                        return
                    response.read()
                    failure = response
            except httpx.HTTPError as error:
                failure = error
            pause = self.rules.pause(attempt, True, failure)
            if pause is None:
                raise _error(failure, self.rules)
            time.sleep(pause)
            attempt += 1

    def close(self) -> None:
        """Closes the connections."""
        if self._pid == os.getpid():
            self._client.close()


class AsyncTransport:
    """Sends calls and awaits their answers."""

    def __init__(self, rules: Rules, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.rules = rules
        self._transport = transport
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()

    @property
    def _http(self) -> httpx.AsyncClient:
        """Of the running event loop: connections belong to one."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = httpx.AsyncClient(**self.rules.options(), transport=self._transport)
        return self._clients[loop]

    def __reduce__(self) -> tuple[type["AsyncTransport"], tuple[Rules]]:
        """As `Transport`."""
        return AsyncTransport, (self.rules,)

    async def send(self, call: Call[T]) -> T:
        """The answer to a call. Raises GradeboxError."""
        resend = Resend(call.threads)
        for attempt in count():
            body = {"content": async_blocks(call.threads)} if call.threads is not None else {}
            failure: httpx.Response | httpx.HTTPError
            try:
                failure = await self._http.request(**self.rules.request(call) | body)
            except httpx.HTTPError as error:
                failure = error
            pause = self.rules.pause(attempt, call.idempotent and resend.possible, failure)
            if pause is None:
                break
            await asyncio.sleep(pause)
            resend.rewind()
        return _settle(call, failure, self.rules, attempt)

    async def outcomes(self, path: str, after: int | None) -> AsyncIterator[Outcome]:
        """The outcomes of a batch as they arrive, read on from where a connection broke."""
        reader, attempt = OutcomeReader(after), 0
        while True:
            failure: httpx.Response | httpx.HTTPError
            try:
                async with self._http.stream("GET", path, params=reader.params) as response:
                    self.rules.reached = True
                    if response.is_success:
                        async for block in response.aiter_bytes():
                            attempt = 0
                            for outcome in reader.feed(block):
                                yield outcome
                        for outcome in reader.end():
                            yield outcome
                        return
                    await response.aread()
                    failure = response
            except httpx.HTTPError as error:
                failure = error
            pause = self.rules.pause(attempt, True, failure)
            if pause is None:
                raise _error(failure, self.rules)
            await asyncio.sleep(pause)
            attempt += 1

    async def close(self) -> None:
        """Closes the connections of the running event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()


def _settle(call: Call[T], failure: httpx.Response | httpx.HTTPError, rules: Rules, attempt: int) -> T:
    if isinstance(failure, httpx.Response):
        if call.gone_is_done and attempt > 0 and failure.status_code == httpx.codes.NOT_FOUND:
            return call.read(b"")
        return call.answer(failure)
    raise _error(failure, rules)


def _error(failure: httpx.Response | httpx.HTTPError, rules: Rules) -> GradeboxError:
    if isinstance(failure, httpx.Response):
        return refusal(failure)
    error = rules.unreachable(failure)
    error.__cause__ = failure
    return error


def _is_final(response: httpx.Response) -> bool:
    problem = problem_of(response)
    return problem is not None and problem.type.endswith(NOT_AGAIN)


@lru_cache(maxsize=64)
def _absolute(service: str, path: str, params: tuple[tuple[str, str], ...]) -> httpx.URL:
    """Where a request goes; to put that together takes httpx nearly half of its time for a request."""
    url = httpx.URL(service + path)
    return url.copy_merge_params(httpx.QueryParams(params)) if params else url


def _check_url(url: str) -> None:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ConnectionFailed(f"{url!r} is no URL ({error}): name the service as in http://127.0.0.1:8000") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ConnectionFailed(f"{url!r} is no http URL: name the service as in http://127.0.0.1:8000")


def _headers(url: str) -> dict[str, str]:
    headers = {"User-Agent": "gradebox-python"}
    if is_local(url):
        headers["Accept-Encoding"] = "identity"  # on one machine, compressing outcomes costs more than it saves
    return headers
