"""The one job: take units until none is left."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from sandbox.errors import InfrastructureError
from storage.errors import PayloadLost
from storage.leases import Lease
from worker.bench import Bench
from worker.runtime import Runtime, current
from worker.unit import Scored, score, settle

SLICE_S = 60.0
_REDIS_WAIT_S = 1.0
_LONGEST_PAUSE_S = 30.0

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


def drain() -> None:
    """Takes units until none is left, or for a minute: RQ's own upkeep is done between jobs."""
    runtime = current()
    ends = time.monotonic() + SLICE_S
    with Bench(runtime.store, runtime.pool) as bench:
        while not runtime.stopping.is_set():
            lease = _patiently(runtime, runtime.store.leases.claim)
            if lease is None:
                return
            runtime.heartbeat.lease = lease
            try:
                _work(runtime, bench, lease)
            finally:
                runtime.heartbeat.lease = None
            if time.monotonic() > ends:
                _patiently(runtime, runtime.dispatch.call)
                return


def _work(runtime: Runtime, bench: Bench, lease: Lease) -> None:
    """Scores one unit, or gives it back after a while: what stands in the way may have passed by then.

    A payload that is lost does not come back, so that is not waited for: other batches are.
    """
    scored: Scored | None = None
    try:
        scored = _patiently(runtime, lambda: score(runtime, bench, lease))
    except (InfrastructureError, PayloadLost, OSError) as error:
        pause = 0.0 if isinstance(error, PayloadLost) else min(2.0**lease.attempt, _LONGEST_PAUSE_S)
        _log.warning("unit %s could not be scored, it is given back in %g s: %s", lease, pause, error)
        bench.put_away()
        runtime.stopping.wait(pause)
    if scored is None:
        tried = not runtime.stopping.is_set()
        _patiently(runtime, lambda: runtime.store.leases.release(lease, tried=tried))
    else:
        result = scored
        _patiently(runtime, lambda: settle(runtime.store, lease, result))


def _patiently(runtime: Runtime, ask: Callable[[], _T]) -> _T:
    """Asks until Redis answers, or the worker is told to stop."""
    while True:
        try:
            return ask()
        except (RedisConnectionError, RedisTimeoutError) as error:
            _log.warning("Redis does not answer, trying again: %s", error)
            if runtime.stopping.wait(_REDIS_WAIT_S):
                raise
