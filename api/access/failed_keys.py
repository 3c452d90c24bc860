"""Counts wrong API keys by client address. Only in this process, so that they cost no Redis write."""

import logging
import math
import time
from ipaddress import ip_address

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from api.http.problems import ProblemError

_IPV6_NETWORK_BITS = 64  # the network of one subscriber, who can use any address in it
ADDRESS_CHARACTERS = 64  # longer text in `X-Forwarded-For` is no address, and would fill what remembers it

_log = logging.getLogger(__name__)


class FailedKeys:
    """Limits how many wrong keys a minute each address may send."""

    def __init__(self, a_minute: int) -> None:
        self._most = RateLimitItemPerMinute(a_minute)
        self._one_line = RateLimitItemPerMinute(1, namespace="told")
        self._limiter = FixedWindowRateLimiter(MemoryStorage())

    def count(self, address: str) -> None:
        """Counts a wrong key. Raises ProblemError if there were too many."""
        network = network_of(address)
        if self._limiter.hit(self._most, network):
            return
        reset = self._limiter.get_window_stats(self._most, network).reset_time
        wait = max(1, math.ceil(reset - time.time()))
        if self._limiter.hit(self._one_line, network):
            _log.warning("%s has sent more than %s wrong API keys", network, self._most)
        sent = f"{self._most.amount} wrong API keys came from your address within a minute"
        raise ProblemError(
            429, "too-many-requests", f"{sent}: check the key, and wait {wait} s", {"Retry-After": str(wait)}
        )


def network_of(address: str) -> str:
    """The unit that counts as one address: for IPv6, the network of one subscriber."""
    try:
        found = ip_address(address)
    except ValueError:
        return address[:ADDRESS_CHARACTERS]
    found = getattr(found, "ipv4_mapped", None) or found
    return str(found) if found.version == 4 else f"{found.exploded[:19]}/{_IPV6_NETWORK_BITS}"
