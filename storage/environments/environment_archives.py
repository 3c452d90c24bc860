"""The contents of environments in the spool, one archive each. Builds with the same content share one."""

import logging
import time
from typing import Any

from redis import Redis
from redis.client import Pipeline
from redis.exceptions import RedisError

from storage import redis_keys
from storage.connection import seconds, text, transaction
from storage.spool.file_store import Readable
from storage.spool.spool import Spool

KEPT_S = 24 * 3600.0  # at least, since its last write began or an environment that used it was deleted
_AGAIN_S = 0.5
_PATIENCE_S = 60.0

_log = logging.getLogger(__name__)


class Archives:
    """The archives of all environments. An archive is either wanted or condemned, so one that is being removed is never
    taken for an available one.
    """

    def __init__(self, redis: Redis, spool: Spool) -> None:
        self._redis = redis
        self._spool = spool

    def keep(self, sha256: str, archive: Readable) -> None:
        """Stores this content in the spool for at least a day, and for as long as a build or batch names it. Replaces a
        damaged archive.

        Raises:
            OSError: it could not be written.
        """
        until = time.monotonic() + _PATIENCE_S
        while not self._want(sha256):
            if time.monotonic() > until:
                raise OSError(f"the archive {sha256} is being removed, and that takes too long")
            time.sleep(_AGAIN_S)
        if not self.has(sha256):
            self._spool.write_archive(sha256, archive)
            self._redis.srem(redis_keys.DAMAGED_ARCHIVES, sha256)

    def has(self, sha256: str) -> bool:
        """Whether this content is stored, and not known to be damaged."""
        return self._spool.has_archive(sha256) and not self._redis.sismember(redis_keys.DAMAGED_ARCHIVES, sha256)

    def note_damage(self, sha256: str) -> None:
        """Records that the archive of this content was changed or cut off. If Redis cannot keep that now, the next
        process that reads the archive records it.
        """
        _log.error("the archive of environment %s in the spool was changed or cut off", sha256)
        try:
            self._redis.sadd(redis_keys.DAMAGED_ARCHIVES, sha256)
        except RedisError as error:
            _log.warning("the damage of environment %s could not be recorded: %s", sha256, error)

    def _want(self, sha256: str) -> bool:
        def want(pipe: Pipeline) -> bool:
            condemned = bool(pipe.sismember(redis_keys.CONDEMNED_ARCHIVES, sha256))
            now = seconds(pipe)
            pipe.multi()
            if not condemned:
                pipe.zadd(redis_keys.ARCHIVES, {sha256: now})
            return not condemned

        return transaction(self._redis, want, redis_keys.CONDEMNED_ARCHIVES)

    def sweep(self, named: set[str]) -> list[str]:
        """Removes all archives that are not in `named` and were not wanted recently; returns what was removed. Of those
        in `named`, removes what killed writers left.
        """
        wanted: Any = self._redis.zrange(redis_keys.ARCHIVES, 0, -1)
        known = {*map(text, wanted)} | self._spool.archives()
        for sha256 in sorted(known - named):
            self._condemn(sha256)
        condemned = sorted(text(found) for found in self._redis.smembers(redis_keys.CONDEMNED_ARCHIVES))
        for sha256 in condemned:
            self._spool.remove_archive(sha256)
            self._redis.srem(redis_keys.DAMAGED_ARCHIVES, sha256)
            self._redis.srem(redis_keys.CONDEMNED_ARCHIVES, sha256)
        old: Any = self._redis.zrangebyscore(redis_keys.ARCHIVES, "-inf", seconds(self._redis) - KEPT_S)
        self._spool.remove_unfinished_archives(named.intersection(map(text, old)))
        return condemned

    def _condemn(self, sha256: str) -> None:
        def condemn(pipe: Pipeline) -> None:
            wanted_at = pipe.zscore(redis_keys.ARCHIVES, sha256)
            now = seconds(pipe)
            pipe.multi()
            if wanted_at is None or float(wanted_at) < now - KEPT_S:
                pipe.zrem(redis_keys.ARCHIVES, sha256)
                pipe.sadd(redis_keys.CONDEMNED_ARCHIVES, sha256)

        transaction(self._redis, condemn, redis_keys.ARCHIVES)
