"""Limits the memory that the bodies of all requests take together."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from starlette.types import Scope

from api.http.problems import RETRY, ProblemError

_HELD = "body_bytes"
_LEAST = 64 * 1024 * 1024  # each API key may hold at least this much: the longest body


class BodyMemory:
    """Counts body bytes from their arrival until their request is answered. Used in one event loop only.

    One API key may hold half of the limit.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._of_key: Counter[str] = Counter()
        self.held = 0

    def hold(self, scope: Scope, size: int) -> None:
        """Counts more bytes for a request. Raises ProblemError if the limit is exceeded."""
        key = key_of(scope)
        if not self.fits(size, key):
            detail = f"requests in progress hold {self.held >> 20} MiB already: try again in a moment"
            raise ProblemError(503, "unavailable", detail, RETRY)
        self.count(size, key)
        scope["state"][_HELD] = scope["state"].get(_HELD, 0) + size

    def fits(self, size: int, key: str, share: int = 2) -> bool:
        """Whether `size` more bytes fit now, for an API key that may hold 1/`share` of the limit."""
        of_key = max(self._most // share, min(self._most, _LEAST))
        return self.held + size <= self._most and self._of_key[key] + size <= of_key

    def count(self, more: int, key: str) -> None:
        """Adds to the bytes of an API key; `more` may be negative."""
        self.held += more
        self._of_key[key] += more
        if not self._of_key[key]:
            del self._of_key[key]

    def let_go(self, scope: Scope, size: int) -> None:
        """Releases a part of what a request holds."""
        scope["state"][_HELD] = scope["state"].get(_HELD, 0) - size  # if memory was short, the request holds nothing
        self.count(-size, key_of(scope))

    def release(self, scope: Scope) -> None:
        """Releases all that a request holds."""
        if held := scope.get("state", {}).pop(_HELD, 0):
            self.count(-held, key_of(scope))


def key_of(scope: Mapping[str, Any]) -> str:
    """The id of the API key of a request; empty if it is unknown."""
    key = scope["state"].get("key")
    return str(key.id) if key is not None else ""
