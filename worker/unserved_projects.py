"""A second loop of a worker: while a unit takes long, it serves projects that no worker serves."""

import threading

import structlog

from worker.context import WorkerContext
from worker.scoring_loop import ScoringLoop

_PAUSE_S = 1.0

_log = structlog.get_logger(__name__)


class UnservedProjectsLoop(threading.Thread):
    """Sleeps until a unit takes more than a second while a project without a lease waits."""

    def __init__(self, context: WorkerContext) -> None:
        super().__init__(name="unserved-projects", daemon=True)
        self._worker = context

    def run(self) -> None:
        """Serves these projects until the worker stops."""
        stopping, starving = self._worker.stopping, self._worker.starving
        while not stopping.is_set():
            starving.wait()
            starving.clear()
            try:
                self.serve()
            except Exception:  # noqa: BLE001  # an error in one project must not end the loop
                _log.exception("the loop for unserved projects was interrupted", goes_on_in_s=_PAUSE_S)
                stopping.wait(_PAUSE_S)

    def serve(self) -> None:
        """Scores units of waiting projects without a lease, until there are none."""
        with ScoringLoop(self._worker, starving=True) as loop:
            while loop.work() or self._again(loop):
                pass

    def _again(self, loop: ScoringLoop) -> bool:
        """Writes the outcomes and tries again: a project holds its lease until its outcomes are written. After that, it
        may be a waiting project without a lease.
        """
        loop.flush()
        return loop.work()

    def end(self) -> None:
        """Ends the thread once `stopping` is set; waits up to `stop_s` for the current unit."""
        self._worker.starving.set()
        self.join(timeout=self._worker.stop_s)
