"""Threads that score units beside the job of a worker, or in its place."""

import threading

import structlog

from storage.queue.leases import Unserved
from worker.context import WorkerContext
from worker.scoring_loop import ScoringLoop

_PAUSE_S = 1.0

_log = structlog.get_logger(__name__)


class ScoringThread(threading.Thread):
    """A thread that sleeps until an event is set, then scores units until there are none."""

    def __init__(self, context: WorkerContext, name: str, wake: threading.Event, unserved: Unserved = "") -> None:
        super().__init__(name=name, daemon=True)
        self._worker = context
        self._wake = wake
        self._unserved = unserved

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
        with ScoringLoop(self._worker, self._unserved) as loop:
            self._wake.clear()
            while loop.work() or (self._unserved and self._again(loop)):
                pass

    def _again(self, loop: ScoringLoop) -> bool:
        """Writes the outcomes and tries again: a batch holds its lease until its outcomes are written. After that, it
        may be a waiting batch without a lease.
        """
        loop.flush()
        return loop.work()

    def end(self) -> None:
        """Ends the thread once `stopping` is set; waits up to `stop_s` for the current unit."""
        self._wake.set()
        self.join(timeout=self._worker.stop_s)


def unserved_threads(context: WorkerContext, asking_chunks: int) -> list[ScoringThread]:
    """Threads that serve waiting projects and batches that no worker serves, while a unit takes long.

    Half of them take no batches of projects that are served: one project with many slow batches would keep all threads
    from the others. In the lane `asking` there are as many as chunks may be in flight, because a chunk that asks is not
    interrupted, and a slow model delays its end.
    """
    each = max(1, asking_chunks // 2) if context.lane == "asking" else 1
    return [
        *(ScoringThread(context, f"unserved-batch-{n}", context.unserved_batch, "batches") for n in range(each)),
        *(ScoringThread(context, f"unserved-project-{n}", context.unserved_project, "projects") for n in range(each)),
    ]


def asking_threads(context: WorkerContext, asking_chunks: int) -> list[ScoringThread]:
    """The threads of a worker in the lane `asking`, each with one chunk, which mostly waits for models."""
    wake = context.heartbeat.called
    return [ScoringThread(context, f"asking-{number}", wake) for number in range(asking_chunks)]
