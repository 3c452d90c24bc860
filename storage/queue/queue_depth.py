"""The amounts of waiting and running work, for metrics."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from redis import Redis

from storage import redis_keys
from storage.batch_plan import Lane
from storage.connection import text

_AT_ONCE = 500


class Depth(msgspec.Struct):
    """The work in the queue, at about one moment."""

    queued: int = 0
    """Batches with no chunk leased yet."""
    running: int = 0
    chunks_waiting: int = 0
    """Chunks without a lease."""
    chunks_lent: int = 0
    """Chunks that workers have leased."""
    oldest_s: float = 0.0
    """How long the oldest of the queued batches has waited for its first lease."""
    completions: dict[str, int] = {}
    """Completions without an outcome, by project."""
    redis_bytes: int = 0


class Queue:
    """The batches that have not ended."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    def waits(self, lane: Lane) -> bool:
        """Whether a lane has units that are not done: unleased ones, or leased ones, whose worker may have died."""
        if self._redis.exists(redis_keys.turns(lane)):
            return True
        leases: list[Any] = self._redis.zrange(redis_keys.LEASES, 0, -1)  # a few for each worker
        batches = {text(lease).partition(":")[0] for lease in leases}
        with self._redis.pipeline(transaction=False) as pipe:
            for one in batches:
                pipe.hmget(redis_keys.batch(one), "lane", "state")
            found = pipe.execute()
        return any(text(own or b"") == lane and state == b"running" for own, state in found)  # not of a cancelled one

    def depth(self) -> Depth:
        """The current depth.

        Raises:
            RedisError: Redis is unavailable.
        """
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.smembers(redis_keys.OPEN)
            pipe.hgetall(redis_keys.WAITING)
            pipe.zcard(redis_keys.LEASES)
            pipe.info("memory")
            pipe.time()
            still_open, waiting, lent, memory, (whole, micros) = pipe.execute()
        depth = Depth(
            chunks_lent=lent,
            completions={text(project): int(count) for project, count in waiting.items()},
            redis_bytes=memory["used_memory"],
        )
        ids = [text(found) for found in still_open]
        for first in range(0, len(ids), _AT_ONCE):
            self._add(depth, ids[first : first + _AT_ONCE], whole + micros / 1e6)
        return depth

    def _add(self, depth: Depth, ids: Sequence[str], now: float) -> None:
        with self._redis.pipeline(transaction=False) as pipe:
            for batch_id in ids:
                pipe.hmget(redis_keys.batch(batch_id), "state", "units", "next", "created_at")
                pipe.llen(redis_keys.returned(batch_id))
            found = pipe.execute()
        for fields, returned in zip(found[::2], found[1::2], strict=True):
            if fields[0] is None:
                continue  # it ended meanwhile
            state, units, following, created_at = [text(field) for field in fields]
            depth.chunks_waiting += max(int(units) - int(following), 0) + returned
            if state == "queued":
                depth.queued += 1
                waited = now - datetime.fromisoformat(created_at).timestamp()
                depth.oldest_s = max(depth.oldest_s, waited)
            else:
                depth.running += 1
