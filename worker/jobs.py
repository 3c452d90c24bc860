"""The only RQ job: take units until none is left."""

import time
from functools import partial

from worker.context import WorkerContext, current
from worker.redis_retry import retry_redis
from worker.scoring_loop import ScoringLoop

TURN_S = 60.0
_READ_S = 0.05
_LINGER_S = 1.0
_STOP_S = 0.25  # the interval at which a waiting worker checks whether it must stop


def drain() -> None:
    """Takes units until none is left and no call arrives, or for a minute: RQ does its maintenance between jobs.

    In the lane `asking`, it only wakes the threads that take units. So calls are answered while chunks wait for models.
    """
    context = current()
    if context.lane == "asking":
        context.heartbeat.called.set()
        return
    ends = time.monotonic() + TURN_S
    with ScoringLoop(context) as loop:
        while not context.stopping.is_set():
            if not loop.work():
                loop.flush()
                if time.monotonic() > ends or not _called_again(context, loop):
                    return
            elif time.monotonic() > ends:
                retry_redis(context, context.dispatch.call)
                return


def _called_again(context: WorkerContext, loop: ScoringLoop) -> bool:
    """Waits a moment for the next call: in RQ, starting and ending a job costs as much as a small batch."""
    if _called(context, _READ_S):
        return True
    loop.cache.unload()  # not earlier: right after a batch, clients that waited for it read its outcomes
    return _called(context, _LINGER_S)


def _called(context: WorkerContext, wait_s: float) -> bool:
    """Whether a call arrives within `wait_s` seconds. Answers it."""
    ends = time.monotonic() + wait_s
    while not context.stopping.is_set() and (left := ends - time.monotonic()) > 0:
        job = retry_redis(context, partial(context.dispatch.answer, min(left, _STOP_S)))
        if job is not None:
            context.dispatch.forget(job)
            return True
    return False
