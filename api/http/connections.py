"""Limits how many busy connections each API key has. A connection that waits for its next request is not counted. A
websocket is counted as long as it is open. If a key is at its limit, a new connection replaces the key's websocket that
has waited longest for a message.
"""

from collections import Counter, defaultdict
from collections.abc import Callable

from starlette.types import Scope

from api.http.problems import RETRY, ProblemError

_CLAIMED = "connection_of"


class Connections:
    """Counts requests being answered, and websockets, per API key. Used in one event loop only."""

    def __init__(self, most: int) -> None:
        """`most`: the limit for all connections. A tenth of it is reserved for connections whose key is unknown yet."""
        self._of_key = max(1, most // 2)
        self._of_all = max(1, most - most // 10)
        self._busy: Counter[str] = Counter()
        self._waiting: defaultdict[str, dict[int, tuple[Scope, Callable[[], None]]]] = defaultdict(dict)

    def claim(self, scope: Scope, key_id: str) -> None:
        """Counts the connection of a request for a key. Raises ProblemError if the key or the service has too many."""
        if _CLAIMED in scope["state"]:
            return
        close = {**RETRY, "Connection": "close"}
        if self._busy[key_id] >= self._of_key and not self._end_one(key_id):
            detail = f"this API key uses all {self._of_key} connections that it may use: wait for one to end"
            raise ProblemError(429, "too-many-requests", detail, close)
        if self._busy.total() >= self._of_all:
            detail = f"{self._of_all} connections are busy already: try again in a moment"
            raise ProblemError(503, "unavailable", detail, close)
        scope["state"][_CLAIMED] = key_id
        self._busy[key_id] += 1

    def wait(self, scope: Scope, end: Callable[[], None]) -> None:
        """Marks a websocket as waiting for a message. `end` closes it if another connection is to take its place."""
        if key_id := scope["state"].get(_CLAIMED):
            self._waiting[key_id][id(scope)] = (scope, end)

    def work(self, scope: Scope) -> None:
        """Marks a websocket as busy with a message, so that it is not replaced."""
        if (key_id := scope["state"].get(_CLAIMED)) in self._waiting:
            self._waiting[key_id].pop(id(scope), None)

    def _end_one(self, key_id: str) -> bool:
        waiting = self._waiting.get(key_id)
        if not waiting:
            return False
        scope, end = waiting[next(iter(waiting))]
        self.release(scope)
        end()
        return True

    def release(self, scope: Scope) -> None:
        """Removes the connection of a request that is over."""
        key_id = scope.get("state", {}).pop(_CLAIMED, None)
        if key_id is None:
            return
        if waiting := self._waiting.get(key_id):
            waiting.pop(id(scope), None)
            if not waiting:
                del self._waiting[key_id]
        self._busy[key_id] -= 1
        if not self._busy[key_id]:
            del self._busy[key_id]
