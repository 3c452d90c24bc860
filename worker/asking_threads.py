"""The threads of a worker in the lane `asking`: each has a chunk in flight, which mostly waits for models."""

import threading

import structlog
from redis.exceptions import RedisError

from worker.context import WorkerContext
from worker.scoring_loop import ScoringLoop

_PAUSE_S = 1.0
_LOOK_S = 0.25  # the interval of checks whether the worker's main loop answers calls again

_log = structlog.get_logger(__name__)


class AskingThread(threading.Thread):
    """Sleeps until there are units, and scores them in parallel with the worker's main loop."""

    def __init__(self, context: WorkerContext, number: int) -> None:
        super().__init__(name=f"asking-{number}", daemon=True)
        self._worker = context

    def run(self) -> None:
        """Scores units until the worker stops."""
        while not self._worker.stopping.is_set():
            self._worker.heartbeat.called.wait()
            try:
                self._serve()
            except Exception:  # noqa: BLE001  # an error in one unit must not end the thread
                _log.exception("a chunk was interrupted", goes_on_in_s=_PAUSE_S)
                self._worker.stopping.wait(_PAUSE_S)

    def _serve(self) -> None:
        with ScoringLoop(self._worker) as loop:
            self._worker.heartbeat.called.clear()
            while loop.work():
                pass

    def end(self) -> None:
        """Ends the thread once `stopping` is set; waits up to `stop_s` for the current unit."""
        self._worker.heartbeat.called.set()
        self.join(timeout=self._worker.stop_s)


class AskingCalls(threading.Thread):
    """Answers calls for the worker while its main loop has a unit, and wakes the threads that have none."""

    def __init__(self, context: WorkerContext) -> None:
        super().__init__(name="asking-calls", daemon=True)
        self._worker = context

    def run(self) -> None:
        """Answers calls until the worker stops."""
        stopping, scoring = self._worker.stopping, self._worker.scoring
        while not stopping.is_set():
            scoring.wait()
            try:
                self._answer()
            except RedisError as error:
                _log.warning("calls to this worker cannot be answered", again_in_s=_PAUSE_S, error=str(error))
                stopping.wait(_PAUSE_S)

    def _answer(self) -> None:
        dispatch = self._worker.dispatch
        job = dispatch.answer(_LOOK_S)
        if job is None:
            return
        self._worker.heartbeat.called.set()
        dispatch.forget(job)
        if not self._worker.scoring.is_set() or self._worker.stopping.is_set():
            dispatch.call()  # repeat the call, for the main loop, which may be free now, or for another worker

    def end(self) -> None:
        """Ends the thread once `stopping` is set."""
        self._worker.scoring.set()
        self.join(timeout=self._worker.stop_s)
