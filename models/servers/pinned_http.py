"""HTTP requests to one server chosen by a tenant: only to checked addresses, with only the intended headers.

It uses aiohttp, whose parser is in C: a request takes a quarter of the CPU time that it takes with httpx.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import aiohttp
import httpx
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from models.errors import AddressError, AskFailed
from models.servers.permitted_addresses import Policy, Resolve, allowed, read
from models.settings import ModelSettings

_OWN = ("Accept", "Accept-Encoding", "Host", "User-Agent")
_PIECE = 16 * 1024  # bytes that are parsed at once
_AROUND = 64 * 1024  # bytes around a body: heads, interim answers, and the sizes of chunks
# An escape of JSON. The group is half a surrogate pair, for which msgspec refuses the whole body.
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL)
_SHORT = 256 * 1024  # bytes of a body that is searched for halves: 0.05 s at worst
_KEPT_ALIVE_S = 4.0  # uvicorn, with vLLM, closes after 5 s; a request sent in that moment is lost


class HttpAnswer(NamedTuple):
    """The complete answer of a server."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class PinnedHttp:
    """Connects to exactly the addresses that were checked, because a second look-up might return others. TLS and the
    Host header use the name. Each instance is for one base URL, so no connection is ever reused for another name. Use
    it as a context manager, on one event loop.

    Attributes:
        host: the host that is asked. It must not be revealed to a grader.
    """

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        most_connections: int,
        settings: ModelSettings,
        resolve: Resolve,
    ) -> None:
        """`headers` are sent with each request, in place of the usual ones. Raises AskFailed if the URL is invalid."""
        try:
            self._base = base = read(base_url)
        except AddressError as error:
            raise AskFailed("refused", str(error)) from error
        self.host = base.host
        self._headers = headers
        self._settings = settings
        self._policy = Policy(settings)
        self._most_connections = most_connections
        self._resolve = resolve
        url = httpx.URL(base.url)  # the parser that read `base`: another might see another host
        self._path = url.raw_path.decode("ascii").rstrip("/")

    async def __aenter__(self) -> Self:
        # Reading the authorities is too slow for an event loop, and useless without TLS.
        trusted = await asyncio.to_thread(_trusted) if self._base.scheme == "https" else True
        self._checked = _Checked()
        connector = _Connector(
            ssl=trusted,
            resolver=self._checked,
            use_dns_cache=False,
            limit=self._most_connections,
            keepalive_timeout=_KEPT_ALIVE_S,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_OWN,
            auto_decompress=False,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._settings.model_connect_s),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._session.close()

    async def get(self, path: str, timeout_s: float) -> HttpAnswer:
        """As `post`, without a body."""
        return await self._answer("GET", path, None, timeout_s)

    async def post(self, path: str, body: bytes, timeout_s: float) -> HttpAnswer:
        """Post JSON and return the answer. No request is repeated, and no redirect is followed.

        Raises:
            AskFailed: there was no complete answer.
        """
        return await self._answer("POST", path, body, timeout_s)

    async def _answer(self, method: str, path: str, body: bytes | None, timeout_s: float) -> HttpAnswer:
        try:
            async with asyncio.timeout(timeout_s):  # for the whole request, however slowly bytes arrive
                return await self._send(method, path, body)
        except aiohttp.ServerTimeoutError:  # a subclass of TimeoutError
            detail = "the server took no connection in time: check that it runs and can be reached from the service"
            raise AskFailed("unreachable", detail, True) from None
        except TimeoutError:
            detail = f"there was no whole reply within {timeout_s:g} s: ask again, or raise its `timeout_s`"
            raise AskFailed("unreachable", detail, True) from None
        except AddressError as error:
            raise AskFailed("refused", str(error)) from None
        except _WordyError:
            raise _not_read("it has too many interim answers, header lines, or chunks of few bytes") from None
        except aiohttp.ClientConnectorError as error:
            detail = f"the server could not be reached ({_why(error)}): check its URL, and that it runs"
            raise AskFailed("unreachable", detail, True) from None
        except (aiohttp.ClientError, OSError):
            detail = "the server closed the connection, or its answer was not HTTP: see its log, and ask again"
            raise AskFailed("unreachable", detail, True) from None

    async def _send(self, method: str, path: str, body: bytes | None) -> HttpAnswer:
        base = self._base
        try:
            self._checked.addresses = await allowed(base, self._policy, self._resolve)
        except (OSError, UnicodeError):
            detail = "the server's name has no address: check its URL"
            raise AskFailed("unreachable", detail, True) from None
        url = URL.build(scheme=base.scheme, host=base.host, port=base.port, path=f"{self._path}{path}", encoded=True)
        headers = self._all_headers()
        async with self._session.request(method, url, data=body, headers=headers, allow_redirects=False) as response:
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise _not_read("it is compressed, which was not requested: its full size is unknown")
            body = await self._bounded(response.content)
            if len(body) <= _SHORT and b"\\ud" in body.lower():
                body = _ESCAPE.sub(_with_half_as_text, body)
            return HttpAnswer(response.status, response.headers, body)

    def _all_headers(self) -> dict[str, str]:
        usual = {
            "Host": self._base.host_header,
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": "gradebox",
        }
        return {**usual, **self._headers}  # aiohttp sends the last one of a name, in whatever case

    async def _bounded(self, content: aiohttp.StreamReader) -> bytes:
        most = self._settings.model_reply_kb * 1024
        pieces: list[bytes] = []
        left = most
        async for piece in content.iter_any():
            left -= len(piece)
            if left < 0:
                raise _not_read(f"it is longer than {most} bytes (GRADEBOX_MODEL_REPLY_KB)")
            pieces.append(piece)
        return b"".join(pieces)


class _Checked(AbstractResolver):
    """Resolves every name to the addresses that were checked last."""

    def __init__(self) -> None:
        self.addresses: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self.addresses
        ]

    async def close(self) -> None:
        pass


class _WordyError(aiohttp.ClientError):
    """There are far more bytes around a body than belong there."""


class _BoundedAnswer(ResponseHandler):
    """Aborts an answer that consists of little but interim answers or sizes of chunks. aiohttp parses them without end
    and without a pause, which blocks all projects.
    """

    _came = 0

    def is_connected(self) -> bool:
        """Whether the connection can be used. What a server sent after its answer would be that of the next request."""
        return super().is_connected() and not self.should_close

    def set_response_params(self, **params: Any) -> None:
        """Starts the count of the next answer."""
        self._came, self._payload = 0, None
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Parses in pieces, and stops at the bound."""
        for start in range(0, max(len(data), 1), _PIECE):
            piece = data[start : start + _PIECE]
            self._came += len(piece)
            super().data_received(piece)
            body = self._payload.total_bytes if self._payload is not None else 0
            if self._came - body > _AROUND + body // 8:
                self._abort()
                return

    def _abort(self) -> None:
        error = _WordyError()
        if self._payload is not None:
            self._payload.set_exception(error)
        self.abort()
        self.set_exception(error)  # `abort` removes one that is set before


class _Connector(aiohttp.TCPConnector):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        loop = asyncio.get_running_loop()
        self._factory = partial(_BoundedAnswer, loop=loop)  # type: ignore[assignment]  # of a subclass


def _trusted() -> ssl.SSLContext:
    """Trust the system's certificates, or those of SSL_CERT_FILE and SSL_CERT_DIR; else those of httpx."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile or (paths.capath and any(Path(paths.capath).iterdir())):
        return ssl.create_default_context()
    return httpx.create_ssl_context()


def _with_half_as_text(escape: re.Match[bytes]) -> bytes:
    return b"\\" + escape[0] if escape[1] else escape[0]


def _not_read(why: str) -> AskFailed:
    return AskFailed("invalid_reply", f"the reply was not read, because {why}")


def _why(error: aiohttp.ClientConnectorError) -> str:
    """Why a connection failed, without its target."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is refused, {error.certificate_error}"
    if isinstance(error, aiohttp.ClientSSLError):
        return "TLS failed, or its certificate is refused"
    return error.os_error.strerror or "no connection"
