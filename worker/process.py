"""The worker process: RQ's loop, from which it is stopped in good order and to which it comes back."""

import os
import signal
import threading
from types import FrameType
from typing import Any

import structlog
from redis.exceptions import RedisError
from rq import SimpleWorker
from rq.exceptions import StopRequested
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.worker import WorkerStatus

from storage.connection import connect
from worker.dispatch import QUEUE
from worker.runtime import Runtime

_REDIS_WAIT_S = 1.0

_log = structlog.get_logger(__name__)


class LeaseWorker(SimpleWorker):
    """RQ's in-process worker. A process each job would cost five times what the job does."""

    log_result_lifespan = False

    def subscribe(self) -> None:
        """Nothing: workers are stopped by signals, and a listening thread would outlive a Redis that goes away."""

    def handle_exception(self, job: Job, *exc_info: Any) -> None:
        """RQ would log the exception's words, and they may quote a tenant."""
        _log.error("a job failed", job=job.id, exc_info=exc_info)

    def _install_signal_handlers(self) -> None:
        """Nothing: the process has its own."""


class Process:
    """Runs RQ's loop until a signal ends it. Redis may go away meanwhile: the loop is entered again.

    `stop_s` is how many seconds the chunk at hand may still take then, fewer than a supervisor waits before it kills.
    """

    def __init__(self, runtime: Runtime, redis_url: str, stop_s: float) -> None:
        self._stop_s = stop_s
        self._runtime = runtime
        self._redis_url = redis_url
        self._worker: LeaseWorker | None = None

    def run(self) -> None:
        """Works until told to stop."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        while not self._runtime.stopping.is_set():
            try:
                self._work()
            except RedisError as error:
                _log.warning("Redis does not answer, trying again", error=str(error))
            except StopRequested:
                return
            self._runtime.stopping.wait(_REDIS_WAIT_S)

    def _work(self) -> None:
        redis = connect(self._redis_url, blocking=True)
        self._worker = LeaseWorker([QUEUE], connection=redis, serializer=JSONSerializer, log_job_description=False)
        try:
            self._worker.work(logging_level="WARNING")
        finally:
            self._worker = None
            redis.close()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """A job at hand is finished, at most for a while; a worker that waits for one stops at once."""
        if self._runtime.stopping.is_set():
            return
        self._runtime.stopping.set()
        timer = threading.Timer(self._stop_s, self._give_up)
        timer.daemon = True
        timer.start()
        worker = self._worker
        if worker is not None:
            worker._stop_requested = True
            if worker.get_state() != WorkerStatus.BUSY:
                raise StopRequested

    def _give_up(self) -> None:
        """The unit takes too long: another worker is to have it now, not when the lease runs out."""
        try:
            for lease in list(self._runtime.heartbeat.leases):
                self._runtime.store.leases.release(lease)
        except RedisError as error:
            _log.warning("chunks could not be given back, they come back when their leases run out", error=str(error))
        finally:
            os._exit(0)
