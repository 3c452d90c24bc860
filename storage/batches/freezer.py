"""Freezes ended batches: replaces all their records with one small record."""

import hashlib
from typing import Any

from redis import Redis

from storage import redis_keys
from storage.batches import frozen_batch
from storage.batches.batches import Batches
from storage.connection import postpone, script, seconds, text

AGAIN_S = 3600.0  # until a batch whose summary could not be made is tried again


class Freezer:
    """Freezes batches. The process that ends a batch freezes it; the janitor freezes the missed ones. Each step is
    idempotent.
    """

    def __init__(self, redis: Redis, batches: Batches) -> None:
        self._redis = redis
        self._batches = batches
        self._freeze = script(redis, "freeze_batch")

    def due(self, before: float, limit: int) -> list[str]:
        """Batches that ended before this time and are not frozen."""
        found: list[Any] = self._redis.zrangebyscore(redis_keys.UNFROZEN, "-inf", before, start=0, num=limit)
        return [text(batch_id) for batch_id in found]

    def freeze(self, batch_id: str) -> None:
        """Freezes an ended batch that is not frozen yet. If its summary cannot be made, the batch stays as it is,
        because the cause may be fixed later. If it is retried meanwhile, it stays as the retry leaves it.
        """
        ended_at: Any = self._redis.hget(redis_keys.batch(batch_id), "finished_at")
        # Before the batch: a chunk of a cancelled batch that counts after this read prevents freezing.
        tables = self._batches.tables(batch_id)
        batch = self._batches.find(batch_id)
        if batch is None or tables is None:
            self._freeze(args=[batch_id, b"", b"", b""])  # nothing is left to freeze
            return
        if batch.finished_at is None or ended_at is None:
            return
        if batch.summary_error is not None:
            self.postpone(batch_id)
            return
        table = frozen_batch.join(*tables)
        is_short = len(table) <= frozen_batch.KEPT_TABLE_BYTES
        kept = table if is_short else self._batches.spool.write_table(batch_id, table)
        floor: Any = self._redis.hget(redis_keys.batch(batch_id), "floor")
        record = frozen_batch.freeze(batch, kept, int(floor or 0))
        counting = hashlib.sha1(tables[1], usedforsecurity=False).hexdigest()
        self._freeze(args=[batch_id, record, ended_at, counting, *self._batches.rewards(batch)])

    def postpone(self, batch_id: str) -> None:
        """Postpones a batch that cannot be frozen now."""
        postpone(self._redis, redis_keys.UNFROZEN, batch_id, seconds(self._redis) + AGAIN_S)
