"""Renews this worker's leases, and gives back the leases of workers that died."""

import threading
from time import monotonic

from runtime.metrics import Metrics
from runtime.periodic_thread import PeriodicThread
from storage.queue.leases import BEAT_S, Lease
from storage.store import Store
from worker.dispatch import Dispatch

_SILENT_BEATS = 5


class Heartbeat(PeriodicThread):
    """The heartbeat thread of a worker process.

    Attributes:
        leases: the leases of the units that the process is working on.
        called: set when units wait.
    """

    def __init__(self, store: Store, dispatch: Dispatch, metrics: Metrics) -> None:
        super().__init__("heartbeat", self._beat, BEAT_S)
        self.leases: set[Lease] = set()
        self.called = threading.Event()
        self._store = store
        self._dispatch = dispatch
        self._metrics = metrics
        self._beaten_at = monotonic()

    def trouble(self) -> str | None:
        """A message if the leases were not renewed for five intervals; else None."""
        silent_s = monotonic() - self._beaten_at
        if silent_s < _SILENT_BEATS * BEAT_S:
            return None
        return f"the leases of this worker were not renewed for {silent_s:.0f} s: see its log"

    def _beat(self) -> None:
        self.beat()
        self._beaten_at = monotonic()

    def beat(self) -> None:
        """Renews the leases, gives back expired leases of any worker, and calls a worker if units wait, because jobs
        can be lost, but leases cannot.
        """
        found = self._store.leases.beat(list(self.leases), self._dispatch.lane)
        self._metrics.given_back.inc(found.returned)
        if found.waiting:
            self.called.set()
            self._dispatch.call()

    def end(self) -> None:
        """Ends the thread."""
        super().end()
        self.join(timeout=BEAT_S)
