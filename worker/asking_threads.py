"""The threads of a worker of the lane `asking`: each has a chunk in flight, which mostly waits for models."""

import threading

import structlog

from worker.context import WorkerContext
from worker.scoring_loop import ScoringLoop

_PAUSE_S = 1.0

_log = structlog.get_logger(__name__)


class AskingThread(threading.Thread):
    """Sleeps until there are units, and scores them beside the worker's own loop."""

    def __init__(self, context: WorkerContext, number: int) -> None:
        super().__init__(name=f"asking-{number}", daemon=True)
        self._worker = context

    def run(self) -> None:
        """Serves until the worker is told to stop."""
        while not self._worker.stopping.is_set():
            self._worker.heartbeat.called.wait()
            try:
                self._serve()
            except Exception:  # noqa: BLE001  # one unit's fault must not take the thread from the others
                _log.exception("a chunk was interrupted", goes_on_in_s=_PAUSE_S)
                self._worker.stopping.wait(_PAUSE_S)

    def _serve(self) -> None:
        with ScoringLoop(self._worker) as loop:
            self._worker.heartbeat.called.clear()
            while loop.work():
                pass

    def end(self) -> None:
        """Ends the thread once the worker is told to stop; the unit at hand may take as long as one may then."""
        self._worker.heartbeat.called.set()
        self.join(timeout=self._worker.stop_s)
