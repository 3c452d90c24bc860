"""Keeps this worker's leases, and gives back the leases of workers that died."""

import threading

import structlog
from redis.exceptions import RedisError

from storage.leases import BEAT_S, Lease
from storage.store import Store
from worker.dispatch import Dispatch

_log = structlog.get_logger(__name__)


class Heartbeat(threading.Thread):
    """A thread of every worker process. `leases` are those of the units that the process has at hand."""

    def __init__(self, store: Store, dispatch: Dispatch, beat_s: float = BEAT_S) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self.leases: set[Lease] = set()
        self._store = store
        self._dispatch = dispatch
        self._beat_s = beat_s
        self._ended = threading.Event()

    def run(self) -> None:
        """Beats until it is ended."""
        while not self._ended.wait(self._beat_s):
            try:
                self.beat()
            except (RedisError, OSError) as error:
                _log.warning("a heartbeat failed", next_in_s=self._beat_s, error=str(error))

    def beat(self) -> None:
        """One beat. Work that waits while no job calls for a worker is healed here: jobs can be lost, leases not."""
        if self._store.leases.beat(list(self.leases)).waiting:
            self._dispatch.call()

    def end(self) -> None:
        """Ends the thread."""
        self._ended.set()
        self.join(timeout=self._beat_s)
