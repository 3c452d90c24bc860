"""Files in the spool that belong to no batch: those of running or aborted uploads, and deleted ones."""

import secrets
from collections.abc import Sequence
from typing import Any

from redis import Redis

from storage import redis_keys
from storage.connection import postpone, script, seconds, text

_FRACTIONS = 1 << 20  # of a second, as five hexadecimal digits
UPLOAD_S = 3600  # an upload that is not renewed for this long is dead


class OrphanFiles:
    """The ids of orphan files. A condemned id stays condemned until its files are removed, even if processes are
    killed.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._condemn_overdue = script(redis, "condemn_uploads")
        self._condemn_orphans = script(redis, "condemn_orphans")

    def begin(self) -> str:
        """The id of a new upload, which must be renewed or accepted within the hour. Ids sort by time."""
        now = seconds(self._redis)
        batch_id = f"{int(now):08x}{int(now % 1 * _FRACTIONS):05x}{secrets.token_hex(4)[:7]}"
        self._redis.zadd(redis_keys.UPLOADS, {batch_id: now + UPLOAD_S})
        return batch_id

    def renew(self, batch_id: str) -> bool:
        """Gives an upload another hour. False if it is already condemned."""
        return bool(self._redis.zadd(redis_keys.UPLOADS, {batch_id: seconds(self._redis) + UPLOAD_S}, xx=True, ch=True))

    def condemn(self, batch_id: str) -> None:
        """Condemns an upload: its files are to be removed."""
        now = seconds(self._redis)
        with self._redis.pipeline() as pipe:
            pipe.zrem(redis_keys.UPLOADS, batch_id)
            pipe.zadd(redis_keys.GARBAGE, {batch_id: now})
            pipe.execute()

    def condemn_overdue(self) -> None:
        """Condemns the uploads that are no longer renewed."""
        self._condemn_overdue(args=[seconds(self._redis)])

    def condemn_orphans(self, ids: Sequence[str]) -> list[str]:
        """Condemns the ids among these that have neither a batch nor an upload. Returns them."""
        return [text(found) for found in self._condemn_orphans(args=[seconds(self._redis), *ids])]

    def due(self, limit: int = 10) -> list[str]:
        """Ids whose files are to be removed now."""
        now = seconds(self._redis)
        found: list[Any] = self._redis.zrangebyscore(redis_keys.GARBAGE, "-inf", now, start=0, num=limit)
        return [text(batch_id) for batch_id in found]

    def postpone(self, batch_id: str, pause_s: float) -> None:
        """Postpones the removal of files that cannot be removed now."""
        postpone(self._redis, redis_keys.GARBAGE, batch_id, seconds(self._redis) + pause_s)

    def swept(self, batch_id: str) -> None:
        """Records that the files of an id are removed."""
        with self._redis.pipeline(transaction=False) as pipe:  # a full Redis refuses transactions
            pipe.zrem(redis_keys.UPLOADS, batch_id)
            pipe.zrem(redis_keys.GARBAGE, batch_id)
            pipe.execute()
