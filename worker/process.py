"""The worker process: RQ's loop, from which it is stopped in good order and to which it comes back."""

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import structlog
from redis.client import Pipeline
from redis.exceptions import RedisError
from rq import Queue, SimpleWorker
from rq.exceptions import StopRequested
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.worker import WorkerStatus
from rq.worker_registration import register

from storage.connection import connect
from worker.context import WorkerContext
from worker.dispatch import QUEUES

_REDIS_WAIT_S = 1.0
_FIRST_S = 2.0
_RENEW_S = 10.0
_STOPPING = (signal.SIGTERM, signal.SIGINT)

_log = structlog.get_logger(__name__)


class Registration(threading.Thread):
    """Keeps RQ's record of a worker and of its job while the job lasts: RQ itself does so between jobs alone."""

    def __init__(self, worker: "LeaseWorker", job: Job) -> None:
        super().__init__(name="registration", daemon=True)
        self._worker = worker
        self._job = job
        self._ended = threading.Event()

    def run(self) -> None:
        """Most jobs are over before the first time."""
        wait_s = _FIRST_S
        while not self._ended.wait(wait_s):
            wait_s = _RENEW_S
            try:
                self._worker.maintain_heartbeats(self._job)
                register(self._worker)  # another worker takes off the list who was silent for too long
            except RedisError as error:
                _log.warning("RQ's record of this worker was not renewed", next_in_s=_RENEW_S, error=str(error))

    def end(self) -> None:
        """Returns when nothing is written any more."""
        self._ended.set()
        self.join()


class LeaseWorker(SimpleWorker):
    """RQ's in-process worker. A process each job would cost five times what the job does."""

    log_result_lifespan = False
    on_signal: Callable[[], None] | None = None
    """What SIGTERM and SIGINT do, where it is set: RQ's own handler takes locks that the main thread may hold."""
    stops = False
    """Whether the job at hand is the last one."""
    _registration: Registration | None = None

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """RQ has signals call this."""
        if self.on_signal is None:
            super().request_stop(signum, frame)  # type: ignore[no-untyped-call]
        else:
            self.on_signal()

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Executes a job, and stops where that was asked for meanwhile."""
        super().execute_job(job, queue)
        if self.stops:
            raise StopRequested

    def perform_job(self, job: Job, queue: Queue) -> bool:
        """Performs a job, which may take hours."""
        self._registration = Registration(self, job)
        self._registration.start()
        try:
            return bool(super().perform_job(job, queue))
        finally:
            self._registration.end()

    def cleanup_execution(self, job: Job, pipeline: Pipeline) -> None:
        """Forgets the job's execution, which is to be renewed no more."""
        if self._registration is not None:
            self._registration.end()
        super().cleanup_execution(job, pipeline)

    def subscribe(self) -> None:
        """Nothing: workers are stopped by signals, and a listening thread would outlive a Redis that goes away."""

    def handle_exception(self, job: Job, *exc_info: Any) -> None:
        """RQ would log the exception's words, and they may quote a tenant."""
        _log.error("a job failed", job=job.id, exc_info=exc_info)


class WorkerProcess:
    """Runs RQ's loop until a signal ends it. Redis may go away meanwhile: the loop is entered again.

    The chunks at hand may still take the context's `stop_s` then, less than a supervisor waits before it kills.
    """

    def __init__(self, context: WorkerContext, redis_url: str) -> None:
        self._context = context
        self._redis_url = redis_url
        self._worker: LeaseWorker | None = None
        self._told = False

    def run(self) -> None:
        """Works until told to stop."""
        woken, waking = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(waking, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        threading.Thread(target=self._await_signal, args=(woken,), name="signals", daemon=True).start()
        for number in _STOPPING:
            signal.signal(number, lambda _number, _frame: self._on_signal())
        while not self._told:
            try:
                self._work()
            except RedisError as error:
                _log.warning("Redis does not answer, trying again", error=str(error))
            except StopRequested:
                return
            self._context.stopping.wait(_REDIS_WAIT_S)

    def _work(self) -> None:
        redis = connect(self._redis_url, blocking=True)
        queues = [QUEUES[self._context.lane]]
        self._worker = LeaseWorker(queues, connection=redis, serializer=JSONSerializer, log_job_description=False)
        self._worker.on_signal = self._on_signal
        try:
            self._worker.work(logging_level="WARNING")
        finally:
            self._worker = None
            redis.close()

    def _on_signal(self) -> None:
        """A worker that waits for a job stops at once. The main thread may hold any lock here, so none is taken: the
        thread that `_await_signal` runs in tells the others.
        """
        if self._told:
            return
        self._told = True
        worker = self._worker
        if worker is not None:
            worker.stops = True
            if worker.get_state() != WorkerStatus.BUSY:
                raise StopRequested

    def _await_signal(self, woken: int) -> None:
        while os.read(woken, 1)[0] not in _STOPPING:
            pass
        self._context.stopping.set()
        time.sleep(self._context.stop_s)
        self._give_up()

    def _give_up(self) -> None:
        """The units take too long: other workers are to have them now, not when the leases run out."""
        try:
            for lease in list(self._context.heartbeat.leases):
                self._context.store.leases.release(lease, tried=False)
        except RedisError as error:
            _log.warning("chunks could not be given back, they come back when their leases run out", error=str(error))
        finally:
            os._exit(0)
