"""Detects batches that wait although no worker process is alive."""

import logging
import time

from storage.batch_plan import Lane
from storage.connection import is_full_now
from storage.processes import ROLES
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
_FULL = "batches wait, because Redis has reached its `maxmemory`: free memory, or raise it"


class MissingWorkers:
    """Detects lanes that have waiting batches and no worker.

    Attributes:
        known: what the last look found missing. One thread calls `look`; any thread may read this.
    """

    def __init__(self, store: Store) -> None:
        self.known: tuple[str, ...] = ()
        self._store = store
        self._since: dict[Lane, float] = {}

    def look(self) -> None:
        """Looks, and logs what is missing since the previous look. Raises RedisError."""
        now = time.monotonic()
        lacking = [lane for lane in ROLES if self._store.queue.waits(lane) and not self._store.processes.workers(lane)]
        self._since = {lane: self._since.get(lane, now) for lane in lacking}
        found = tuple(_MISSING[lane] for lane, since in self._since.items() if now - since >= GRACE_S)
        if found and is_full_now(self._store.redis):
            found = (_FULL,)
        for missing in found:
            if missing not in self.known:
                _log.warning(missing)
        self.known = found
