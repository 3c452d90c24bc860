"""What lies in the spool and belongs to no batch: uploads under way or broken off, and what was deleted."""

import secrets
import time
from collections.abc import Sequence
from typing import Any

from redis import Redis

from storage import names
from storage.connection import script, text

_FRACTIONS = 1 << 20  # of a second, as five digits
UPLOAD_S = 3600  # an upload that nobody has renewed for so long is dead


class OrphanFiles:
    """The ids of them. One that is condemned stays so until its files are gone, whatever is killed meanwhile."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._condemn_overdue = script(redis, "condemn_overdue")
        self._condemn_orphans = script(redis, "condemn_orphans")

    def begin(self) -> str:
        """The id of a new upload, which is to be renewed or accepted within the hour. Ids sort by time."""
        now = time.time()
        batch_id = f"{int(now):08x}{int(now % 1 * _FRACTIONS):05x}{secrets.token_hex(4)[:7]}"
        self._redis.zadd(names.UPLOADS, {batch_id: now + UPLOAD_S})
        return batch_id

    def renew(self, batch_id: str) -> bool:
        """Another hour for an upload; False where it is condemned already."""
        return bool(self._redis.zadd(names.UPLOADS, {batch_id: time.time() + UPLOAD_S}, xx=True, ch=True))

    def condemn(self, batch_id: str) -> None:
        """The files of an upload are to go."""
        with self._redis.pipeline() as pipe:
            pipe.zrem(names.UPLOADS, batch_id)
            pipe.zadd(names.GARBAGE, {batch_id: time.time()})
            pipe.execute()

    def condemn_overdue(self) -> None:
        """Condemns the uploads that nobody renews any more."""
        self._condemn_overdue(args=[time.time()])

    def condemn_orphans(self, ids: Sequence[str]) -> list[str]:
        """Condemns those of these ids that no batch has, and no upload. Returns them."""
        return [text(found) for found in self._condemn_orphans(args=[time.time(), *ids])]

    def due(self, limit: int = 10) -> list[str]:
        """Ids whose files are to be removed now."""
        found: list[Any] = self._redis.zrangebyscore(names.GARBAGE, "-inf", time.time(), start=0, num=limit)
        return [text(batch_id) for batch_id in found]

    def postpone(self, batch_id: str, seconds: float) -> None:
        """Files that cannot be removed now are due later."""
        self._redis.zadd(names.GARBAGE, {batch_id: time.time() + seconds}, xx=True)

    def swept(self, batch_id: str) -> None:
        """Notes that the files of an id are gone."""
        with self._redis.pipeline() as pipe:
            pipe.zrem(names.UPLOADS, batch_id)
            pipe.zrem(names.GARBAGE, batch_id)
            pipe.execute()
