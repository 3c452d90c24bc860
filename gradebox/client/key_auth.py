"""The API key of a client."""

from collections.abc import Generator
from typing import NamedTuple

import httpx

from gradebox.discovery import FoundKey, Listeners, find_key
from gradebox.errors import GradeboxError
from gradebox.key_file import id_of


class _Key(NamedTuple):
    """An API key, and the check of the service's owner if it was found on this machine."""

    found: FoundKey
    listeners: Listeners | None


class KeyAuth(httpx.Auth):
    """Adds the API key to requests. A key found on this machine is sent only while the service of its owner listens.

    Without a key, it looks for one at each request: the client may be older than the service. Threads share it: each
    request reads `_key` once, so that a key and its check belong together.
    """

    def __init__(self, url: str, key: FoundKey | None) -> None:
        """Raises GradeboxError if the key cannot be sent."""
        self._url = url
        self._key = None if key is None else self._checked(key)

    @property
    def key(self) -> FoundKey | None:
        """The API key, if there is one."""
        return None if self._key is None else self._key.found

    def _checked(self, key: FoundKey) -> _Key:
        if not key.secret.isascii() or not key.secret.isprintable() or " " in key.secret:
            raise GradeboxError("the API key holds characters that no key has: check GRADEBOX_API_KEY or api_key=")
        return _Key(key, None if key.owner is None else Listeners(self._url, key.owner))

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Adds the key to a request, if there is one.

        Raises:
            GradeboxError: a key that was found only now cannot be sent.
            NotOurs: a process of another user listens on the port.
            httpx.ConnectError: no process listens there.
        """
        key = self._key
        if key is None and (found := find_key(self._url)) is not None:
            self._key = key = self._checked(found)
        if key is not None:
            if key.listeners is not None and not key.listeners.check():
                raise httpx.ConnectError("nothing on this machine listens there", request=request)
            request.headers["Authorization"] = f"Bearer {key.found.secret}"
        yield request

    def take_over(self, old: str, secret: str) -> None:
        """Sends the key `secret` from now on, if the current one has the id `old`."""
        key = self._key
        if key is not None and id_of(key.found.secret) == old:
            self._key = _Key(FoundKey(secret, key.found.owner), key.listeners)

    def look_again(self) -> None:
        """Makes the next request check again which process listens. Call it after a connection broke."""
        key = self._key
        if key is not None and key.listeners is not None:
            key.listeners.forget()
