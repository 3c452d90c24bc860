"""Limits how many busy connections each tenant has. A connection that waits for its next request is not counted. A
websocket is counted as long as it is open. If a tenant is at its limit, a new connection replaces the tenant's
websocket that has waited longest for a message.
"""

from collections import Counter, defaultdict
from collections.abc import Callable

from starlette.types import Scope

from api.access.tenants import shown
from api.http.problems import RETRY, ProblemError

_CLAIMED = "connection_of"


class Connections:
    """Counts requests being answered, and websockets, per tenant. Used in one event loop only.

    A tenant alone may have half of all connections, and another one the same part of what others leave. So some are
    left, however many tenants take all that they may.
    """

    def __init__(self, most: int) -> None:
        """`most`: the limit for all connections. A tenth of it is reserved for connections whose key is unknown yet."""
        self._of_one = max(1, most // 2)
        self._of_all = max(1, most - most // 10)
        self._busy: Counter[str] = Counter()
        self._waiting: defaultdict[str, dict[int, tuple[Scope, Callable[[], None]]]] = defaultdict(dict)

    def claim(self, scope: Scope, tenant: str) -> None:
        """Counts the connection of a request for a tenant. Raises ProblemError if it or the service has too many."""
        if _CLAIMED in scope["state"]:
            return
        close = {**RETRY, "Connection": "close"}
        if self._busy[tenant] >= self._most_of(tenant) and not self._end_one(tenant):
            used = f"{self._busy[tenant]} connections of {shown(tenant)} are busy, as many as may be now"
            raise ProblemError(429, "too-many-requests", f"{used}: wait for one to end", close)
        if self._busy.total() >= self._of_all:
            detail = f"{self._of_all} connections are busy already: try again in a moment"
            raise ProblemError(503, "unavailable", detail, close)
        scope["state"][_CLAIMED] = tenant
        self._busy[tenant] += 1

    def _most_of(self, tenant: str) -> int:
        left = self._of_all - self._busy.total() + self._busy[tenant]
        return max(1, left * self._of_one // self._of_all)

    def wait(self, scope: Scope, end: Callable[[], None]) -> None:
        """Marks a websocket as waiting for a message. `end` closes it if another connection is to take its place."""
        if tenant := scope["state"].get(_CLAIMED):
            self._waiting[tenant][id(scope)] = (scope, end)

    def work(self, scope: Scope) -> None:
        """Marks a websocket as busy with a message, so that it is not replaced."""
        if (tenant := scope["state"].get(_CLAIMED)) in self._waiting:
            self._waiting[tenant].pop(id(scope), None)

    def _end_one(self, tenant: str) -> bool:
        waiting = self._waiting.get(tenant)
        if not waiting:
            return False
        scope, end = waiting[next(iter(waiting))]
        self.release(scope)
        end()
        return True

    def release(self, scope: Scope) -> None:
        """Removes the connection of a request that is over."""
        tenant = scope.get("state", {}).pop(_CLAIMED, None)
        if tenant is None:
            return
        if waiting := self._waiting.get(tenant):
            waiting.pop(id(scope), None)
            if not waiting:
                del self._waiting[tenant]
        self._busy[tenant] -= 1
        if not self._busy[tenant]:
            del self._busy[tenant]
