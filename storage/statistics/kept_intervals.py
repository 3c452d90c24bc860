"""The stored bootstrap confidence intervals of batches."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
from redis import Redis

from storage import redis_keys

KEEP_S = 7 * 24 * 3600


class _Kept(msgspec.Struct, array_like=True):
    of: str
    """The `digest` that they were computed for."""
    bounds: list[tuple[float, float] | None]


class KeptIntervals:
    """The bootstrap intervals of ended batches, stored for a week. They are invalid once outcomes are scored again or
    another number of resamples is requested.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    def get(self, batch_id: str, of: str) -> list[tuple[float, float] | None] | None:
        """The bounds for each grader, None for a grader without. None if nothing is stored for the digest `of`."""
        found: Any = self._redis.get(redis_keys.intervals(batch_id))
        if found is None:
            return None
        kept = msgspec.msgpack.decode(found, type=_Kept)
        return kept.bounds if kept.of == of else None

    def keep(self, batch_id: str, of: str, bounds: Sequence[tuple[float, float] | None]) -> None:
        """Stores the bounds, replacing others of this batch."""
        self._redis.set(redis_keys.intervals(batch_id), msgspec.msgpack.encode(_Kept(of, list(bounds))), ex=KEEP_S)


def digest(attempts: Sequence[int], graders: Sequence[str], resamples: int) -> str:
    """A digest of the attempts that count, the graders that have bounds, and the number of resamples."""
    return hashlib.sha256(msgspec.msgpack.encode((attempts, graders, resamples))).hexdigest()[:24]
