"""The confidence intervals by bootstrap that are kept of batches."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
from redis import Redis

from storage import names

KEEP_S = 7 * 24 * 3600


class _Kept(msgspec.Struct, array_like=True):
    of: str
    """What they are of, as `digest` gives it."""
    bounds: list[tuple[float, float] | None]


class KeptIntervals:
    """The intervals by bootstrap of batches that are over, for a week. Where outcomes were scored again, or there are
    to be other resamples, those that are kept count no more.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    def get(self, batch_id: str, of: str) -> list[tuple[float, float] | None] | None:
        """The bounds for each grader, None where it has none; None where none are kept of this."""
        found: Any = self._redis.get(names.intervals(batch_id))
        if found is None:
            return None
        kept = msgspec.msgpack.decode(found, type=_Kept)
        return kept.bounds if kept.of == of else None

    def keep(self, batch_id: str, of: str, bounds: Sequence[tuple[float, float] | None]) -> None:
        """Keeps them in the place of others of this batch."""
        self._redis.set(names.intervals(batch_id), msgspec.msgpack.encode(_Kept(of, list(bounds))), ex=KEEP_S)


def digest(attempts: Sequence[int], graders: Sequence[str], resamples: int) -> str:
    """Of the attempts that count, the graders that have bounds, and the number of resamples."""
    return hashlib.sha256(msgspec.msgpack.encode((attempts, graders, resamples))).hexdigest()[:24]
