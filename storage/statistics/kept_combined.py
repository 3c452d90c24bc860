"""The stored summaries of the combined outcomes of batches."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
from redis import Redis

from gradebox.schemas import Summary
from storage import redis_keys

KEEP_S = 7 * 24 * 3600


class _Kept(msgspec.Struct, array_like=True):
    of: str
    """The `digest` that it was computed for."""
    summary: str


class KeptCombined:
    """The summaries of the combined outcomes of ended batches, stored for a week. They are invalid once outcomes are
    scored again.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    def get(self, batch_id: str, attempts: Sequence[int]) -> Summary | None:
        """The summary of the outcomes of these attempts; None if it is not stored."""
        found: Any = self._redis.get(redis_keys.combined(batch_id))
        if found is None:
            return None
        kept = msgspec.msgpack.decode(found, type=_Kept)
        return Summary.model_validate_json(kept.summary) if kept.of == _digest(attempts) else None

    def keep(self, batch_id: str, attempts: Sequence[int], summary: Summary) -> None:
        """Stores the summary, replacing another one of this batch."""
        kept = _Kept(_digest(attempts), summary.model_dump_json())
        self._redis.set(redis_keys.combined(batch_id), msgspec.msgpack.encode(kept), ex=KEEP_S)


def _digest(attempts: Sequence[int]) -> str:
    return hashlib.sha256(msgspec.msgpack.encode(attempts)).hexdigest()[:24]
