"""Calls that reach a worker in the lane `asking` while its main loop has a unit."""

import threading

import structlog
from redis.exceptions import RedisError

from worker.context import WorkerContext

_PAUSE_S = 1.0
_LOOK_S = 0.25  # the interval of checks whether the worker's main loop answers calls again

_log = structlog.get_logger(__name__)


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
            except Exception:  # noqa: BLE001  # without this thread, asks of other batches wait while the loop is busy
                _log.exception("a call to this worker could not be answered", goes_on_in_s=_PAUSE_S)
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
