"""The second loop of a worker: while a unit takes long, it serves projects that no worker serves."""

import threading

import structlog

from worker.context import WorkerContext
from worker.scoring_loop import ScoringLoop

_PAUSE_S = 1.0

_log = structlog.get_logger(__name__)


class SecondLoop(threading.Thread):
    """Sleeps until a unit has taken more than a second while a project waits that has no lease."""

    def __init__(self, context: WorkerContext) -> None:
        super().__init__(name="second-loop", daemon=True)
        self._worker = context

    def run(self) -> None:
        """Serves until the worker is told to stop."""
        stopping, starving = self._worker.stopping, self._worker.starving
        while not stopping.is_set():
            starving.wait()
            starving.clear()
            try:
                self.serve()
            except Exception:  # noqa: BLE001  # one project's fault must not take the loop from the others
                _log.exception("the second loop was interrupted", goes_on_in_s=_PAUSE_S)
                stopping.wait(_PAUSE_S)

    def serve(self) -> None:
        """Scores units of projects that have no lease, until there is no such project."""
        with ScoringLoop(self._worker, starving=True) as loop:
            while loop.work() or self._again(loop):
                pass

    def _again(self, loop: ScoringLoop) -> bool:
        """A project has its lease until its outcomes are written: without it, it may be the one that waits."""
        loop.flush()
        return loop.work()

    def end(self) -> None:
        """Ends the thread once the worker is told to stop; the unit at hand may take as long as one may then."""
        self._worker.starving.set()
        self.join(timeout=self._worker.stop_s)
