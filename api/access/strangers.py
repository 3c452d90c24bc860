"""Limits the requests per second of each address that carry no known good API key.

A request with a key that was good in the last hour is not limited, because many clients may share a proxy's address.
"""

from collections import OrderedDict
from hashlib import blake2b
from time import monotonic

from api.access.failed_keys import network_of

GOOD_S = 3600.0
_REMEMBERED = 10_000  # keys, and addresses
_BURST_S = 5.0  # after a quiet time, an address may use this many seconds' worth at once
_LANGFUSE = "/langfuse/v1/"  # these requests are signed and carry no API key
WAITS = "waits_for_its_turn"  # a key in the state of a request


class Strangers:
    """Counts requests by address, and remembers good keys. Used in one event loop only."""

    def __init__(self, a_second: int) -> None:
        """`a_second`: the limit of requests per address, not counting those with a good key."""
        self.a_second = a_second
        self._turns: OrderedDict[str, float] = OrderedDict()  # when the next request of an address is due
        self._good: OrderedDict[bytes, float] = OrderedDict()

    def note_good(self, authorization: str) -> None:
        """Records that the key in this header is good."""
        self._note(authorization.encode("latin-1"))

    def note_good_address(self, address: str) -> None:
        """Records that requests of this address to Langfuse's executor are good. They carry no key."""
        self._note(_of_address(address))

    def _note(self, known_by: bytes) -> None:
        digest = _digest(known_by)
        self._good[digest] = monotonic()
        self._good.move_to_end(digest)
        if len(self._good) > _REMEMBERED:
            self._good.popitem(last=False)

    def note_wrong(self, authorization: str) -> None:
        """Records that the key in this header is wrong or revoked."""
        self._good.pop(_digest(authorization.encode("latin-1")), None)

    def is_good(self, authorization: bytes) -> bool:
        """Whether the key in this header was good in the last hour. This does not authorise: it may be revoked."""
        return bool(authorization) and monotonic() - self._good.get(_digest(authorization), -GOOD_S) < GOOD_S

    def is_good_address(self, path: str, address: str) -> bool:
        """Whether the path is one of Langfuse's executor, and a request of this address to it was good in the last
        hour.
        """
        return path.startswith(_LANGFUSE) and self.is_good(_of_address(address))

    def take_turn(self, address: str) -> bool:
        """Whether a request of this address may be processed now. If so, it is counted."""
        now, network = monotonic(), network_of(address)
        due = max(self._turns.get(network, 0.0), now - _BURST_S)
        if due > now:
            return False
        self._turns[network] = due + 1 / self.a_second
        self._turns.move_to_end(network)
        if len(self._turns) > _REMEMBERED:
            self._turns.popitem(last=False)
        return True


def _of_address(address: str) -> bytes:
    return f"{_LANGFUSE} {address}".encode()


def _digest(authorization: bytes) -> bytes:
    return blake2b(authorization, digest_size=16).digest()
