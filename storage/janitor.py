"""Deletes expired batches and files that belong to nothing. Each step can be repeated after any crash."""

from contextlib import suppress

import structlog
from redis.exceptions import LockError, OutOfMemoryError
from redis.lock import Lock

from storage import redis_keys
from storage.connection import postpone, script, seconds, text
from storage.errors import OutcomesLost
from storage.spool import spool_mark
from storage.store import Store

LOCK_S = 60
ORPHANS_S = 6 * 3600
ARCHIVES_S = 600
OLD_S = 24 * 3600.0  # younger files are never treated as orphans, because their writer may still be at work
TIDY_S = 3600.0  # after the end of a batch; no worker writes outcomes for it after that
FREEZE_S = 5.0  # the time that the process that ended a batch has to freeze it
_AGAIN_S = 600.0  # until files that could not be removed are tried again
_AT_ONCE = 100

_log = structlog.get_logger(__name__)


class _Lock(Lock):
    """A lock that can also be taken while Redis is full, because its holder frees memory."""

    def do_acquire(self, token: str) -> bool:
        """Takes the lock if it is free. Returns whether it was."""
        return bool(script(self.redis, "take_lock")(args=[self.name, token, int(LOCK_S * 1000)]))


class Janitor:
    """Cleans up after the whole deployment, by the clock of Redis. At most one janitor is at work at a time, because it
    holds a lock that expires.

    Args:
        retention_s: how long a batch is kept after it has ended, in seconds; None for ever.
    """

    def __init__(self, store: Store, retention_s: float | None) -> None:
        self._store = store
        self._redis = store.redis
        self._retention_s = retention_s
        self._lock = _Lock(store.redis, redis_keys.JANITOR, timeout=LOCK_S, blocking=False, thread_local=False)

    def look(self) -> bool:
        """Runs one round. False if another janitor holds the lock.

        Raises:
            RedisError, OSError: Redis or the spool was unavailable; the next round continues.
        """
        if not self._lock.acquire():
            return False
        try:
            self._expire()
            self._store.orphan_files.condemn_overdue()
            self._look_for_orphans()
            self._sweep()
            self._sweep_archives()
            self._tidy()
            self._freeze()  # last: it needs disk space, and the other steps free some
        finally:
            with suppress(LockError):  # it has expired
                self._lock.release()
        return True

    def _expire(self) -> None:
        if self._retention_s is None:
            return
        before = seconds(self._redis) - self._retention_s
        while count := self._store.batches.expire(before, _AT_ONCE):
            _log.info("deleted expired batches", batches=count)
            self._extend_lock()

    def _sweep(self) -> None:
        """Removes the files of condemned ids. A file that cannot be removed now does not block the rest."""
        orphans = self._store.orphan_files
        while ids := orphans.due():
            for batch_id in ids:
                try:
                    self._store.spool.remove(batch_id)
                except OSError as error:
                    orphans.postpone(batch_id, _AGAIN_S)
                    _log.warning("files cannot be removed", batch=batch_id, again_in_s=_AGAIN_S, error=str(error))
                else:
                    orphans.swept(batch_id)
            self._extend_lock()

    def _freeze(self) -> None:
        """Freezes the cancelled batches, and those that a dead worker left unfrozen."""
        freezer = self._store.freezer
        before = seconds(self._redis) - FREEZE_S
        while ids := freezer.due(before, _AT_ONCE):
            for batch_id in ids:
                try:
                    freezer.freeze(batch_id)
                except (OSError, ValueError) as error:  # the spool, or an undecodable record
                    freezer.postpone(batch_id)
                    _log.warning("an ended batch cannot be frozen", batch=batch_id, error=str(error))
            self._extend_lock()

    def _tidy(self) -> None:
        """Removes outcomes of ended batches by attempts that do not count, and abandoned files of recorded scores of
        all batches.
        """
        now = seconds(self._redis)
        while ids := self._redis.zrangebyscore(redis_keys.UNTIDY, "-inf", now - TIDY_S, start=0, num=_AT_ONCE):
            for found in ids:
                batch_id = text(found)  # type: ignore[arg-type]  # redis-py's types also allow scores
                try:
                    self._remove_what_does_not_count(batch_id, now - TIDY_S)
                except (OSError, ValueError) as error:  # the spool, or an undecodable record
                    postpone(self._redis, redis_keys.UNTIDY, batch_id, now)
                    _log.warning("outcomes that do not count cannot be removed yet", batch=batch_id, error=str(error))
                else:
                    self._redis.zrem(redis_keys.UNTIDY, batch_id)
            self._extend_lock()

    def _remove_what_does_not_count(self, batch_id: str, before: float) -> None:
        self._store.recorded.remove_unnamed(batch_id, before)
        spool = self._store.spool
        # First: the batch may run again, and write others.
        files, tables = spool.outcome_files(batch_id), spool.tables(batch_id)
        try:
            settled = self._store.batches.settled(batch_id)
        except OutcomesLost:
            return  # nothing tells any more which outcomes count: they go with the batch
        if settled is None:
            return  # it runs again, or it was deleted and its files are condemned
        attempts = dict(enumerate(settled))
        for unit, attempt in files:
            if attempts.get(unit) != attempt:
                spool.remove_outcomes(batch_id, unit, attempt)
        if (frozen := self._store.batches.frozen(batch_id)) is not None:
            for name in tables:
                if name != frozen.table_name:
                    spool.remove_table(batch_id, name)

    def _look_for_orphans(self) -> None:
        """Condemns files of no batch. They exist if Redis lost data, or if a worker wrote long after a deletion."""
        if not self._begins(redis_keys.ORPHANS, ORPHANS_S):
            return
        if not self._spool_is_ours():
            _log.warning(
                "the spool lacks the mark of this Redis, so files of unknown batches are kept: if it is the right "
                "spool, write the mark into its file `owner`",
                mark=text(self._redis.get(redis_keys.SPOOL) or b""),
            )
            return
        before = seconds(self._redis) - OLD_S
        found = self._store.spool.batches()
        found -= self._store.environment_data.ids()
        ids = [batch_id for batch_id in sorted(found) if int(batch_id[:8], 16) < before]
        for start in range(0, len(ids), _AT_ONCE):
            if condemned := self._store.orphan_files.condemn_orphans(ids[start : start + _AT_ONCE]):
                _log.warning("removing files that belong to no batch", ids=condemned)
            self._extend_lock()

    def _sweep_archives(self) -> None:
        """Removes the contents of environments that nothing names any more, and condemns unnamed data."""
        if not self._begins(redis_keys.ARCHIVES_LOOK, ARCHIVES_S) or not self._spool_is_ours():
            return
        for sha256 in self._store.environment_data.sweep():
            _log.info("removed the data of an environment: no build uses it", sha256=sha256)
        for sha256 in self._store.archives.sweep(self._store.environments.contents()):
            _log.info("removed the content of an environment: nothing uses it", sha256=sha256)

    def _begins(self, look: str, seconds: int) -> bool:
        """Whether to begin a look that has not begun for these seconds. While Redis is full, none begins, and the round
        goes on to steps that free memory.
        """
        try:
            return bool(self._redis.set(look, 1, nx=True, ex=seconds))
        except OutOfMemoryError:
            return False

    def _spool_is_ours(self) -> bool:
        """Whether the spool belongs to this Redis. If not, the janitor must not remove files of unknown batches."""
        return spool_mark.match(self._redis, self._store.spool) == self._store.spool.mark()

    def _extend_lock(self) -> None:
        """Extends the lock. The round goes on even if it has expired, and then another janitor may be at work too."""
        with suppress(LockError):
            self._lock.reacquire()
