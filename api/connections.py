"""How many connections each API key keeps busy. Those that wait for a next request give way, and are not counted."""

from collections import Counter

from starlette.types import Scope

from api.problems import RETRY, ProblemError

_CLAIMED = "connection_of"


class Connections:
    """Counts requests that are being answered, and websockets, by their API keys. Belongs to one event loop."""

    def __init__(self, most: int) -> None:
        """`most`: how many connections there may be. A tenth of them is left to those whose key is not known yet."""
        self._of_key = max(1, most // 2)
        self._of_all = max(1, most - most // 10)
        self._busy: Counter[str] = Counter()

    def claim(self, scope: Scope, key_id: str) -> None:
        """Counts the connection of a request for a key. Raises ProblemError where it has too many."""
        if _CLAIMED in scope["state"]:
            return
        close = {**RETRY, "Connection": "close"}
        if self._busy[key_id] >= self._of_key:
            detail = f"this API key keeps {self._of_key} connections busy, and has no more: wait for one to end"
            raise ProblemError(429, "too-many-requests", detail, close)
        if self._busy.total() >= self._of_all:
            detail = f"{self._of_all} connections are busy already: try again in a moment"
            raise ProblemError(503, "unavailable", detail, close)
        scope["state"][_CLAIMED] = key_id
        self._busy[key_id] += 1

    def release(self, scope: Scope) -> None:
        """Forgets the connection of a request that is over."""
        key_id = scope.get("state", {}).pop(_CLAIMED, None)
        if key_id is None:
            return
        self._busy[key_id] -= 1
        if not self._busy[key_id]:
            del self._busy[key_id]
