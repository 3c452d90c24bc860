"""The worker process: runs RQ's loop, stops it cleanly, and enters it again when Redis was away."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

from runtime.starting import REDIS_WAIT_S
from storage.connection import connect, is_away, trouble_of
from worker.context import WorkerContext
from worker.dispatch import QUEUES

_FIRST_S = 2.0
_RENEW_S = 10.0
_LISTEN_S = 10
_STOPPING = (signal.SIGTERM, signal.SIGINT)

_log = structlog.get_logger(__name__)


class Registration(threading.Thread):
    """Renews RQ's record of a worker and of its job during the job: RQ itself renews them only between jobs."""

    def __init__(self, worker: "LeaseWorker", job: Job) -> None:
        super().__init__(name="registration", daemon=True)
        self._worker = worker
        self._job = job
        self._ended = threading.Event()

    def run(self) -> None:
        """Renews the records until `end` is called. Most jobs end before the first renewal."""
        wait_s = _FIRST_S
        while not self._ended.wait(wait_s):
            wait_s = _RENEW_S
            try:
                self._worker.maintain_heartbeats(self._job)
                register(self._worker)  # other workers deregister a worker that was silent for too long
            except RedisError as error:
                _log.warning("RQ's record of this worker was not renewed", next_in_s=_RENEW_S, error=str(error))

    def end(self) -> None:
        """Ends the thread. Returns once it writes nothing any more."""
        self._ended.set()
        self.join()


class LeaseWorker(SimpleWorker):
    """RQ's in-process worker. A process per job would cost five times as much as the job."""

    log_result_lifespan = False
    max_connection_wait_time = REDIS_WAIT_S  # RQ's is 60 s, for which an idle worker did not notice that Redis was back
    on_signal: Callable[[], None] | None = None
    """If set, handles SIGTERM and SIGINT instead of RQ's handler, which takes locks that the main thread may hold."""
    stops = False
    """Whether the current job is the last one."""
    _registration: Registration | None = None

    @property
    def dequeue_timeout(self) -> int:
        """For how many seconds Redis waits for a job before it answers that there is none. Ten seconds later, RQ takes
        the connection for dead: the other end may have gone without a word. RQ's own is 405 s.
        """
        return _LISTEN_S

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """Handles a signal; RQ installs this as the signal handler."""
        if self.on_signal is None:
            super().request_stop(signum, frame)  # type: ignore[no-untyped-call]
        else:
            self.on_signal()

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Executes a job, and stops if a stop was requested meanwhile."""
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
        """Deletes the job's execution, after it stops the renewal."""
        if self._registration is not None:
            self._registration.end()
        super().cleanup_execution(job, pipeline)

    def subscribe(self) -> None:
        """Does nothing: signals stop workers, and a subscriber thread would keep running after Redis goes away."""

    def handle_exception(self, job: Job, *exc_info: Any) -> None:
        """Logs a failed job. RQ's handler would log the exception's message, which may quote a tenant's data."""
        _log.error("a job failed", job=job.id, exc_info=exc_info)


@contextmanager
def _raising(log: logging.Logger) -> Iterator[None]:
    """Raises the error by which RQ's loop ended if Redis is away. RQ logs it as the end of the worker."""
    found: list[RedisError] = []

    def is_logged(record: logging.LogRecord) -> bool:
        error = sys.exception() if "quitting" in str(record.msg) else None
        if isinstance(error, RedisError) and is_away(error):
            found.append(error)
            return False
        return True

    log.addFilter(is_logged)
    try:
        yield
    finally:
        log.removeFilter(is_logged)
    if found:
        raise found[0]


class WorkerProcess:
    """Runs RQ's loop until a signal ends it. Enters the loop again if Redis goes away meanwhile.

    After a signal, the current chunks may take up to the context's `stop_s`, which is less than the time that a
    supervisor waits before it kills the process.
    """

    def __init__(self, context: WorkerContext, redis_url: str) -> None:
        self._context = context
        self._redis_url = redis_url
        self._worker: LeaseWorker | None = None
        self._stop_requested = False

    def run(self) -> None:
        """Works until a signal requests a stop."""
        woken, waking = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(waking, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        threading.Thread(target=self._await_signal, args=(woken,), name="signals", daemon=True).start()
        for number in _STOPPING:
            signal.signal(number, lambda _number, _frame: self._on_signal())
        while not self._stop_requested:
            try:
                self._work()
            except RedisError as error:
                trouble = trouble_of(error) if is_away(error) else "Redis refuses a command of RQ"
                _log.warning(f"{trouble}, trying again", error=str(error))
            except StopRequested:
                return
            self._context.stopping.wait(REDIS_WAIT_S)

    def _work(self) -> None:
        redis = connect(self._redis_url, blocking=True)
        queues = [QUEUES[self._context.lane]]
        self._worker = LeaseWorker(queues, connection=redis, serializer=JSONSerializer, log_job_description=False)
        self._worker.on_signal = self._on_signal
        try:
            with _raising(self._worker.log):
                self._worker.work(logging_level="WARNING")
        finally:
            self._worker = None
            redis.close()

    def _on_signal(self) -> None:
        """Handles a signal: a worker that waits for a job stops at once. Takes no locks, because the main thread may
        hold any lock here; the thread that runs `_await_signal` notifies the other threads.
        """
        if self._stop_requested:
            return
        self._stop_requested = True
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
        """Ends the process because its units take too long. Gives the units back first, so that other workers get them
        now and not when the leases expire.
        """
        try:
            for lease in list(self._context.heartbeat.leases):
                self._context.store.leases.release(lease, tried=False)
        except RedisError as error:
            _log.warning("chunks could not be given back, they return when their leases expire", error=str(error))
        finally:
            os._exit(0)
