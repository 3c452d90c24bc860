"""Puts lease jobs on RQ's queue. A job carries no data: it calls a worker, which takes units until none is left."""

import msgspec
import structlog
from redis.client import Pipeline
from rq import Queue
from rq.exceptions import DequeueTimeout
from rq.job import Job
from rq.serializers import JSONSerializer

from gradebox.schemas import Batch
from runtime import tracing
from storage.batch_plan import Lane, UploadedBatch, lane_of
from storage.connection import lua, text
from storage.idempotency import Once
from storage.store import Store

QUEUES: dict[Lane, str] = {"": "gradebox", "asking": "gradebox-asking"}
_DRAIN = "worker.jobs.drain"
_KEEP_FAILED_S = 3600
_KEEP_S = 86400  # removes a job whose worker was killed while taking it; heartbeats find its work

_log = structlog.get_logger(__name__)


class Dispatch:
    """The queues that workers take jobs from. `call` and `answer` use the queue of `lane`, which is this worker's."""

    def __init__(self, store: Store, lane: Lane = "") -> None:
        self._store = store
        self.lane = lane
        self._queues = {
            each: Queue(name, connection=store.redis, serializer=JSONSerializer) for each, name in QUEUES.items()
        }
        self._queue = self._queues[lane]

    def accept(self, new: UploadedBatch, once: Once | None = None) -> Batch:
        """Accepts an uploaded batch, and calls as many workers as it has units for, in one transaction.

        Arguments and exceptions are those of `Acceptance.accept`.
        """

        def enqueue(pipe: Pipeline) -> None:
            self._call_for(lane_of(new.wanted), len(new.wanted) * len(new.chunks), pipe)

        with tracing.span("accept batch", values={"gradebox.batch": new.id, "gradebox.project": new.project}):
            traced = msgspec.structs.replace(new, trace=tracing.current())
            batch = self._store.acceptance.accept(traced, enqueue, once)
        graders = [str(grader) for grader in batch.graders]
        known = "batch accepted" if batch.id == new.id else "batch was accepted before"
        _log.info(known, batch=batch.id, project=new.project, graders=graders, completions=batch.total)
        return batch

    def retry(self, project: str, batch_id: str, once: Once | None = None) -> Batch:
        """Restarts a finished batch to score its retryable outcomes again, and calls workers. If the call is lost, the
        next heartbeat repeats it.

        Result and exceptions are those of `Retries.begin`.
        """

        def call(lane: Lane, units: int) -> None:
            with self._store.redis.pipeline() as pipe:
                self._call_for(lane, units, pipe)
                pipe.execute()
            _log.info("batch is retried", batch=batch_id, project=project, chunks=units)

        return self._store.retries.begin(project, batch_id, call, once)

    def _call_for(self, lane: Lane, units: int, pipe: Pipeline) -> None:
        """Calls one worker of the lane per unit, but no more workers than there are."""
        workers = max(1, len(self._store.processes.workers(lane)))
        for _ in range(min(units, workers)):
            _enqueue(self._queues[lane], pipe)
        pipe.eval(lua("trim_calls"), 0, self._queues[lane].key, workers, Job.key_for(""))

    def call(self) -> None:
        """Calls one worker, unless a call is queued already."""
        if not len(self._queue):
            _enqueue(self._queue, None)

    def answer(self, wait_s: float) -> str | None:
        """Takes a job off the queue for a worker that is already executing one, because all jobs are alike.

        Returns the job's id, which the caller passes to `forget`, or None if no job arrives within `wait_s` seconds.
        """
        try:
            # RQ declares whole seconds; Redis accepts fractions.
            _, job_id = Queue.lpop([self._queue.key], wait_s, self._store.redis)  # type: ignore[arg-type]
        except DequeueTimeout:
            return None
        return text(job_id)

    def forget(self, job_id: str) -> None:
        """Deletes the record of a job that was answered."""
        self._store.redis.unlink(Job.key_for(job_id))


def _enqueue(queue: Queue, pipe: Pipeline | None) -> None:
    job = queue.create_job(
        _DRAIN, timeout=-1, ttl=_KEEP_S, result_ttl=0, failure_ttl=_KEEP_FAILED_S, description="takes units of batches"
    )
    queue.enqueue_job(job, pipeline=pipe)
