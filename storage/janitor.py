"""Deletes what has had its time, and the files that belong to nothing. Each step can be repeated after any crash."""

import secrets
import time

import structlog

from storage import names
from storage.connection import text
from storage.store import Store

LOCK_MS = 60_000
ORPHANS_S = 6 * 3600
OLD_S = 24 * 3600.0  # younger files are nobody's orphans: what is under way is left alone
TIDY_S = 3600.0  # after a batch has ended: no worker writes outcomes for it any more
_AT_ONCE = 100

_log = structlog.get_logger(__name__)


class Janitor:
    """At most one of a deployment is at work at a time; a lock that expires sees to that.

    Args:
        retention_s: how long a batch lives after it has ended, in seconds; None for ever.
    """

    def __init__(self, store: Store, retention_s: float | None) -> None:
        self._store = store
        self._redis = store.redis
        self._retention_s = retention_s
        self._token = secrets.token_hex(8)

    def look(self) -> bool:
        """One round; False where another janitor is at it.

        Raises:
            RedisError, OSError: a part was away; the next round goes on.
        """
        if not self._redis.set(names.JANITOR, self._token, nx=True, px=LOCK_MS):
            return False
        try:
            self._expire()
            self._store.leftovers.condemn_overdue()
            self._tidy()
            self._look_for_orphans()
            self._sweep()
        finally:
            if text(self._redis.get(names.JANITOR) or b"") == self._token:
                self._redis.delete(names.JANITOR)
        return True

    def _expire(self) -> None:
        if self._retention_s is None:
            return
        while count := self._store.batches.expire(time.time() - self._retention_s, _AT_ONCE):
            _log.info("batches had their time and are deleted", batches=count)
            self._go_on()

    def _sweep(self) -> None:
        """Removes the files of what is condemned."""
        leftovers = self._store.leftovers
        while ids := leftovers.due():
            for batch_id in ids:
                self._store.spool.remove(batch_id)
                leftovers.swept(batch_id)
            self._go_on()

    def _tidy(self) -> None:
        """Of batches that are over, removes the outcomes of attempts that do not count."""
        while ids := self._redis.zrangebyscore(names.UNTIDY, "-inf", time.time() - TIDY_S, start=0, num=_AT_ONCE):
            for found in ids:
                batch_id = text(found)  # type: ignore[arg-type]  # redis-py's types also allow for scores
                attempts = dict(enumerate(self._store.batches.attempts(batch_id)))
                for unit, attempt in self._store.spool.outcome_files(batch_id):
                    if attempts.get(unit) != attempt:
                        self._store.spool.remove_outcomes(batch_id, unit, attempt)
                self._redis.zrem(names.UNTIDY, batch_id)
            self._go_on()

    def _look_for_orphans(self) -> None:
        """Files of no batch: there are some where Redis lost what it had, or a worker wrote long after a delete."""
        if not self._redis.set(names.ORPHANS, 1, nx=True, ex=ORPHANS_S):
            return
        if not self._spool_is_ours():
            _log.warning(
                "the spool was filled with another Redis, so files of unknown batches are left alone: "
                "remove the file `owner` from it to have them deleted"
            )
            return
        before = time.time() - OLD_S
        ids = [batch_id for batch_id in sorted(self._store.spool.batches()) if int(batch_id[:8], 16) < before]
        for start in range(0, len(ids), _AT_ONCE):
            if condemned := self._store.leftovers.condemn_orphans(ids[start : start + _AT_ONCE]):
                _log.warning("files of no batch are removed", ids=condemned)
            self._go_on()

    def _spool_is_ours(self) -> bool:
        """A Redis and a spool that do not belong together must not clean up after each other."""
        self._redis.set(names.SPOOL, secrets.token_hex(8), nx=True)
        ours = text(self._redis.get(names.SPOOL) or b"")
        return self._store.spool.owner(ours) == ours

    def _go_on(self) -> None:
        """Keeps the lock."""
        self._redis.pexpire(names.JANITOR, LOCK_MS)
