"""Detects what batches wait for: a worker process, memory of Redis, or room on the disk of the spool."""

import logging
import time

from storage.batch_plan import Lane
from storage.connection import is_full_now
from storage.processes import ROLES
from storage.spool.spool import is_full
from storage.store import Store

GRACE_S = 10.0  # enough for a worker to start or restart

_log = logging.getLogger(__name__)
_MISSING: dict[Lane, str] = {
    "": "batches wait, but no worker is running: start one with `gradebox worker`",
    "asking": (
        "batches with graders that ask wait, but no worker for them is running: start one with `gradebox worker "
        "--queue asking`; `gradebox serve` starts its own, so see the log of that worker"
    ),
}
_FULL = "Redis has reached its `maxmemory`, so new work gets 507 and batches wait: free memory, or raise it"
_NO_ROOM = (
    "the spool's disk has less than GRADEBOX_RESERVE_MB free, so uploads get 507, and batches wait when a quarter of "
    "that is left: free some of it"
)


class Shortages:
    """Detects lanes that have waiting batches and no worker, and a Redis or spool without room.

    Attributes:
        known: what the last look found short. One thread calls `look`; any thread may read this.
    """

    def __init__(self, store: Store) -> None:
        self.known: tuple[str, ...] = ()
        self._store = store
        self._since: dict[Lane, float] = {}

    def look(self) -> None:
        """Looks, and logs what is short since the previous look. Raises RedisError."""
        now = time.monotonic()
        lacking = [lane for lane in ROLES if self._store.queue.waits(lane) and not self._store.processes.workers(lane)]
        self._since = {lane: self._since.get(lane, now) for lane in lacking}
        found = tuple(_MISSING[lane] for lane, since in self._since.items() if now - since >= GRACE_S)
        if is_full_now(self._store.redis):
            found = (_FULL,)  # workers cannot report
        if self._is_spool_full():
            found += (_NO_ROOM,)
        for missing in found:
            if missing not in self.known:
                _log.warning(missing)
        self.known = found

    def _is_spool_full(self) -> bool:
        try:
            self._store.spool.check_room()
        except OSError as error:  # `/readyz` reports other errors
            return is_full(error)
        return False
