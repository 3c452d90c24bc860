"""Limits the memory that tenants take together, by the bodies of requests or by answers that they do not read."""

from collections import Counter

from starlette.types import Scope

from api.access.tenants import shown, tenant_of
from api.http.problems import RETRY, ProblemError

_HELD = "body_bytes"
_LEAST = 64 * 1024 * 1024  # anyone may use the first so many bytes: the longest body


class TenantMemory:
    """The bytes that each tenant holds: those of a body from their arrival until its request is answered. Used in one
    event loop only.

    A tenant may hold half of what others leave. So some is left, however many tenants take all that they may.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._of_tenant: Counter[str] = Counter()
        self.held = 0

    def hold(self, scope: Scope, size: int) -> None:
        """Counts more bytes for a request. Raises ProblemError if the limit is exceeded."""
        tenant = tenant_of(scope)
        if not self.fits(size, tenant):
            raise self._refusal(size, tenant)
        self.count(size, tenant)
        scope["state"][_HELD] = scope["state"].get(_HELD, 0) + size

    def _refusal(self, size: int, tenant: str) -> ProblemError:
        if self.held + size > self._most:
            held = f"requests in progress hold {self.held >> 20} MiB already"
        else:
            held = f"requests in progress for {shown(tenant)} hold {self.of(tenant) >> 20} MiB, all that they may now"
        return ProblemError(503, "unavailable", f"{held}: try again in a moment", RETRY)

    def fits(self, size: int, tenant: str, share: int = 2) -> bool:
        """Whether `size` more bytes fit now, for a tenant that may hold 1/`share` of what others leave."""
        others = self.held - self.of(tenant)
        of_tenant = max((self._most - others) // share, min(self._most, _LEAST) - others)
        return self.of(tenant) + size <= of_tenant

    def of(self, tenant: str) -> int:
        """The bytes of a tenant."""
        return self._of_tenant[tenant]

    @property
    def is_full(self) -> bool:
        """Whether all tenants together hold more than the limit."""
        return self.held > self._most

    def count(self, more: int, tenant: str) -> None:
        """Adds to the bytes of a tenant; `more` may be negative."""
        self.held += more
        self._of_tenant[tenant] += more
        if not self._of_tenant[tenant]:
            del self._of_tenant[tenant]

    def let_go(self, scope: Scope, size: int) -> None:
        """Releases a part of what a request holds."""
        scope["state"][_HELD] = scope["state"].get(_HELD, 0) - size  # if memory was short, the request holds nothing
        self.count(-size, tenant_of(scope))

    def release(self, scope: Scope) -> None:
        """Releases all that a request holds."""
        if held := scope.get("state", {}).pop(_HELD, 0):
            self.count(-held, tenant_of(scope))
