"""Detects what batches wait for: a worker process, a Redis that can be written, or room on the disk of the spool."""

import logging
import time
from contextlib import suppress
from pathlib import Path

from storage.batch_plan import Lane
from storage.connection import write_trouble
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
_NOT_WRITTEN = (
    "{}, so new work is refused, and batches wait: give it room, or name the primary in GRADEBOX_REDIS_URL if it is a "
    "replica"
)
_NO_ROOM = (
    "the spool's disk has less than GRADEBOX_RESERVE_MB free, so uploads get 507, and batches wait when a quarter of "
    "that is left: free some of it"
)


class Shortages:
    """Detects lanes without a worker that can work, a Redis that cannot be written, and a spool without room.

    If batches with graders that ask wait without a worker, it creates `asking_file`, at which `gradebox serve` starts
    one: a data folder that is restored from a backup lacks this file.

    Attributes:
        known: what the last look found short. One thread calls `look`; any thread may read this.
    """

    def __init__(self, store: Store, asking_file: Path | None = None) -> None:
        self.known: tuple[str, ...] = ()
        self._store = store
        self._asking_file = asking_file
        self._since: dict[Lane, float] = {}

    def look(self) -> None:
        """Looks, and logs what is short since the previous look. Raises RedisError."""
        now = time.monotonic()
        lacking = {lane: missing for lane in ROLES if (missing := self._missing(lane)) is not None}
        self._since = {lane: self._since.get(lane, now) for lane in lacking}
        found = tuple(missing for lane, missing in lacking.items() if now - self._since[lane] >= GRACE_S)
        if (trouble := write_trouble(self._store.redis)) is not None:
            found = (_NOT_WRITTEN.format(trouble),)  # workers cannot report
        if self._is_spool_full():
            found += (_NO_ROOM,)
        logged = {_shortage(missing) for missing in self.known}
        for missing in found:
            if _shortage(missing) not in logged:
                _log.warning(missing)
        self.known = found

    def _missing(self, lane: Lane) -> str | None:
        """What the lane lacks: a worker, though batches wait, or one that can work."""
        workers = self._store.processes.workers(lane)
        if workers and all(worker.trouble for worker in workers):
            return f"no worker of the queue `{lane or 'plain'}` can work: {workers[0].trouble} ({workers[0].name})"
        if workers or not self._store.queue.waits(lane):
            return None
        if lane == "asking" and self._asking_file is not None:
            with suppress(OSError):  # the disk may be full: the next look tries again
                self._asking_file.touch()
        return _MISSING[lane]

    def _is_spool_full(self) -> bool:
        try:
            self._store.spool.check_room()
        except OSError as error:  # `/readyz` reports other errors
            return is_full(error)
        return False


def _shortage(missing: str) -> str:
    """The part of a message that stays while the shortage lasts. What follows the colon may count seconds."""
    return missing.partition(":")[0]
