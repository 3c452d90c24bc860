"""Threads that score units beside the job of a worker, or in its place."""

import threading

import structlog

from worker.context import WorkerContext
from worker.scoring_loop import ScoringLoop

_PAUSE_S = 1.0

_log = structlog.get_logger(__name__)


class ScoringThread(threading.Thread):
    """A thread that sleeps until an event is set, then scores units until there are none."""

    def __init__(self, context: WorkerContext, name: str, wake: threading.Event, *, starving: bool = False) -> None:
        """`starving`: takes only units of waiting projects that have no lease."""
        super().__init__(name=name, daemon=True)
        self._worker = context
        self._wake = wake
        self._starving = starving

    def run(self) -> None:
        """Scores units until the worker stops."""
        while not self._worker.stopping.is_set():
            self._wake.wait()
            try:
                self._serve()
            except Exception:  # noqa: BLE001  # an error in one unit must not end the loop
                _log.exception("a loop of this worker was interrupted", loop=self.name, goes_on_in_s=_PAUSE_S)
                self._worker.stopping.wait(_PAUSE_S)

    def _serve(self) -> None:
        with ScoringLoop(self._worker, starving=self._starving) as loop:
            self._wake.clear()
            while loop.work() or (self._starving and self._again(loop)):
                pass

    def _again(self, loop: ScoringLoop) -> bool:
        """Writes the outcomes and tries again: a project holds its lease until its outcomes are written. After that, it
        may be a waiting project without a lease.
        """
        loop.flush()
        return loop.work()

    def end(self) -> None:
        """Ends the thread once `stopping` is set; waits up to `stop_s` for the current unit."""
        self._wake.set()
        self.join(timeout=self._worker.stop_s)


def unserved_threads(context: WorkerContext, asking_chunks: int) -> list[ScoringThread]:
    """Threads that serve a waiting project that no worker serves, while a unit takes long: one, or in the lane `asking`
    as many as chunks may be in flight.

    A chunk that asks is not interrupted, and a slow model delays its end. With a single thread, one project with a slow
    chunk could block all other waiting projects.
    """
    number = asking_chunks if context.lane == "asking" else 1
    return [ScoringThread(context, "unserved-projects", context.starving, starving=True) for _ in range(number)]


def asking_threads(context: WorkerContext, asking_chunks: int) -> list[ScoringThread]:
    """The threads of a worker in the lane `asking`, each with one chunk, which mostly waits for models."""
    wake = context.heartbeat.called
    return [ScoringThread(context, f"asking-{number}", wake) for number in range(asking_chunks)]
