"""How much of bodies is in memory at once, for all requests together."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from starlette.types import Scope

from api.http.problems import RETRY, ProblemError

_HELD = "body_bytes"
_LEAST = 64 * 1024 * 1024  # for one API key: the longest body


class BodyMemory:
    """Counts bodies from their first byte to when their request is answered. Belongs to one event loop.

    One API key may hold half of it.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._of_key: Counter[str] = Counter()
        self.held = 0

    def hold(self, scope: Scope, size: int) -> None:
        """Notes so many more bytes of a request. Raises ProblemError where they are too many with all others."""
        key = key_of(scope)
        if not self.fits(size, key):
            detail = f"requests that are being worked on hold {self.held >> 20} MiB already: try again in a moment"
            raise ProblemError(503, "unavailable", detail, RETRY)
        self.count(size, key)
        scope["state"][_HELD] = scope["state"].get(_HELD, 0) + size

    def fits(self, size: int, key: str, share: int = 2) -> bool:
        """Whether so many more bytes can be held now, for an API key that may have one of `share` parts."""
        of_key = max(self._most // share, min(self._most, _LEAST))
        return self.held + size <= self._most and self._of_key[key] + size <= of_key

    def count(self, more: int, key: str) -> None:
        """Notes so many more bytes of an API key, or less."""
        self.held += more
        self._of_key[key] += more
        if not self._of_key[key]:
            del self._of_key[key]

    def let_go(self, scope: Scope, size: int) -> None:
        """Forgets a part of what a request held."""
        scope["state"][_HELD] = scope["state"].get(_HELD, 0) - size  # where memory was short it held nothing
        self.count(-size, key_of(scope))

    def release(self, scope: Scope) -> None:
        """Forgets what a request held."""
        if held := scope.get("state", {}).pop(_HELD, 0):
            self.count(-held, key_of(scope))


def key_of(scope: Mapping[str, Any]) -> str:
    """The id of the API key that a request came with, or nothing where it is not known."""
    key = scope["state"].get("key")
    return str(key.id) if key is not None else ""
