"""Requests to one model: to addresses that were checked, with the headers that are meant and no others."""

from collections.abc import AsyncIterator

import httpx2 as httpx

from models.addresses import Place, Policy, Resolve, allowed
from models.errors import AddressError, ReplyTooLarge

# What the library sends besides tells of this machine, or comes from the environment of the service.
_SENT = frozenset({"accept", "content-length", "content-type", "transfer-encoding"})


class PinnedTransport(httpx.AsyncBaseTransport):
    """Connects to the very address that was checked: a second look-up might give another. TLS and the Host header are
    those of the name. Each transport is for one place, so no connection is ever used for another name.
    """

    def __init__(self, place: Place, policy: Policy, api_key: str, most_bytes: int, resolve: Resolve) -> None:
        self._place = place
        self._policy = policy
        self._api_key = api_key
        self._most_bytes = most_bytes
        self._resolve = resolve
        # Of the environment it takes certificates alone: proxies are a client's, and it is given none.
        self._inner = httpx.AsyncHTTPTransport(limits=httpx.Limits(max_keepalive_connections=1))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request, and answers with a reply whose body is bounded while it is read.

        Raises:
            AddressError: it is not for this place, or the place may not be asked.
            ReplyTooLarge: while the body is read.
        """
        if not self._place.holds(request.url.scheme, request.url.raw_host, request.url.port):
            raise AddressError("the request is for another host than the base URL's")
        try:
            addresses = await allowed(self._place, self._policy, self._resolve)
        except (OSError, UnicodeError) as error:
            raise httpx.ConnectError(f"{self._place.host} has no address: check the name") from error
        for left in range(len(addresses), 0, -1):
            try:
                response = await self._inner.handle_async_request(self._pinned(request, addresses[-left]))
                break
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if left == 1:
                    raise
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise ReplyTooLarge("it is compressed, which was not asked for: what it comes to is not known")
        assert isinstance(response.stream, httpx.AsyncByteStream)
        bounded = _Bounded(response.stream, self._most_bytes)
        return httpx.Response(response.status_code, headers=response.headers, stream=bounded)

    def _pinned(self, request: httpx.Request, address: str) -> httpx.Request:
        headers = {name: value for name, value in request.headers.items() if name.lower() in _SENT}
        headers |= {"Host": request.url.netloc.decode("ascii"), "Accept-Encoding": "identity", "User-Agent": "gradebox"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        extensions = {**request.extensions, "sni_hostname": self._place.host}
        url = request.url.copy_with(host=address)
        return httpx.Request(request.method, url, headers=headers, stream=request.stream, extensions=extensions)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._inner.aclose()


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, most: int) -> None:
        self._inner = inner
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._most
        async for piece in self._inner:
            left -= len(piece)
            if left < 0:
                raise ReplyTooLarge(f"it is longer than {self._most} bytes (GRADEBOX_MODEL_REPLY_KB)")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
