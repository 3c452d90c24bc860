"""Results that were computed from the outcomes of ended batches, and are stored for a week."""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
from redis import Redis

KEEP_S = 7 * 24 * 3600


class KeptResults:
    """The results of one kind, one for each batch. Each belongs to a digest of what it was computed from, and is
    invalid once that has changed, as after a retry.
    """

    def __init__(self, redis: Redis, name_of: Callable[[str], str]) -> None:
        """`name_of` returns the key in Redis for the id of a batch."""
        self._redis = redis
        self._name_of = name_of

    def get(self, batch_id: str, of: str) -> bytes | None:
        """The result for the digest `of`; None if it is not stored."""
        found: Any = self._redis.get(self._name_of(batch_id))
        kept_of, _, result = (found or b"").partition(b"\n")
        return result if kept_of == of.encode() else None

    def keep(self, batch_id: str, of: str, result: bytes) -> None:
        """Stores a result, replacing another one of this batch."""
        self._redis.set(self._name_of(batch_id), b"%b\n%b" % (of.encode(), result), ex=KEEP_S)


def digest(*computed_from: object) -> str:
    """A digest of what a result is computed from: the attempts that count, and parameters."""
    return hashlib.sha256(msgspec.msgpack.encode(computed_from)).hexdigest()[:24]
