"""The one job: take units until none is left."""

import time
from contextlib import suppress

import structlog
from redis.exceptions import RedisError
from structlog.contextvars import bound_contextvars

from sandbox.errors import InfrastructureError
from storage.errors import PayloadLost
from storage.leases import Lease
from worker.bench import Bench
from worker.claims import Claims
from worker.pace import SLICE_S
from worker.patience import patiently
from worker.runtime import Runtime, current
from worker.settler import Settler
from worker.unit import Scored, score

TURN_S = 60.0
_LONGEST_PAUSE_S = 30.0
_MOST_AHEAD = 4
_READ_S = 0.05
_LINGER_S = 1.0

_log = structlog.get_logger(__name__)


def drain() -> None:
    """Takes units until none is left and none comes, or for a minute: RQ's own upkeep is done between jobs."""
    runtime = current()
    ends = time.monotonic() + TURN_S
    ahead = 0
    with Bench(runtime.store, runtime.pool) as bench, Claims(runtime) as claims, Settler(runtime, claims) as settler:
        while not runtime.stopping.is_set():
            lease = claims.next()
            if lease is None:
                settler.flush()
                if time.monotonic() > ends or not _called_again(bench, claims):
                    return
                ahead = 0
                continue
            began = time.monotonic()
            if lease.attempt > 1:
                settler.flush()  # it may end this worker, and then nothing else is to be lost with it, again and again
            elif ahead and began < ends:
                claims.look_ahead(ahead)
            with bound_contextvars(batch=lease.batch, chunk=lease.unit, attempt=lease.attempt):
                _work(runtime, bench, claims, settler, lease)
            ahead = _ahead(time.monotonic() - began)
            if time.monotonic() > ends:
                patiently(runtime, runtime.dispatch.call)
                return
    # Told to stop: what was given back, and a call that was answered in that moment, are another worker's now.
    with suppress(RedisError):  # Redis may be stopping too; a heartbeat finds the work
        runtime.dispatch.call()


def _called_again(bench: Bench, claims: Claims) -> bool:
    """Waits a moment for the next call: to RQ, starting and ending a job is as much work as a small batch."""
    if claims.called(_READ_S):
        return True
    bench.put_away()  # not at once: whoever waited for the batch now reads its outcomes
    return claims.called(_LINGER_S)


def _ahead(seconds: float) -> int:
    """How many units to ask for while the next is scored, when one took so long: others may want them, and wait."""
    return min(_MOST_AHEAD, int(SLICE_S / max(seconds, 1e-6)))


def _work(runtime: Runtime, bench: Bench, claims: Claims, settler: Settler, lease: Lease) -> None:
    """Scores one unit, or gives it back after a while: what stands in the way may have passed by then.

    A payload that is lost does not come back, so that is not waited for: other batches are.
    """
    scored: Scored | None = None
    try:
        scored = patiently(runtime, lambda: score(runtime, bench, lease, claims.let_go))
    except (InfrastructureError, PayloadLost, OSError) as error:
        pause = 0.0 if isinstance(error, PayloadLost) else min(2.0**lease.attempt, _LONGEST_PAUSE_S)
        _log.warning("a chunk could not be scored and is given back", after_s=pause, error=str(error))
        bench.put_away()
        runtime.stopping.wait(pause)
    if scored is None:
        claims.give_back(lease, tried=not runtime.stopping.is_set())
    else:
        settler.add(scored)
