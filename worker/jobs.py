"""The one job: take units until none is left."""

import time
from contextlib import suppress
from functools import partial

import structlog
from redis.exceptions import RedisError

from worker.context import WorkerContext, current
from worker.redis_retry import retry_redis
from worker.scoring_loop import ScoringLoop

TURN_S = 60.0
_READ_S = 0.05
_LINGER_S = 1.0
_STOP_S = 0.25  # after which a worker that waits sees that it is to stop

_log = structlog.get_logger(__name__)


def drain() -> None:
    """Takes units until none is left and none comes, or for a minute: RQ's own upkeep is done between jobs."""
    context = current()
    ends = time.monotonic() + TURN_S
    with ScoringLoop(context) as loop:
        while not context.stopping.is_set():
            if _work(context, loop):
                if time.monotonic() > ends:
                    retry_redis(context, context.dispatch.call)
                    return
                continue
            loop.flush()
            if time.monotonic() > ends or not _called_again(context, loop):
                break
    if context.stopping.is_set():
        # What was given back, and a call that was answered in that moment, are another worker's now.
        with suppress(RedisError):  # Redis may be stopping too; a heartbeat finds the work
            context.dispatch.call()


def _work(context: WorkerContext, loop: ScoringLoop) -> bool:
    context.scoring.set()
    try:
        return loop.work()
    finally:
        context.scoring.clear()


def _called_again(context: WorkerContext, loop: ScoringLoop) -> bool:
    """Waits a moment for the next call: to RQ, starting and ending a job is as much work as a small batch."""
    if _called(context, _READ_S):
        return True
    loop.cache.unload()  # not at once: clients that waited for the batch now read its outcomes
    return _called(context, _LINGER_S)


def _called(context: WorkerContext, wait_s: float) -> bool:
    """Whether there is another call for a worker within so many seconds; it is answered then."""
    ends = time.monotonic() + wait_s
    while not context.stopping.is_set() and (left := ends - time.monotonic()) > 0:
        job = retry_redis(context, partial(context.dispatch.answer, min(left, _STOP_S)))
        if job is not None:
            context.dispatch.forget(job)
            return True
    return False
