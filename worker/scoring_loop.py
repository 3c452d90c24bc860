"""Scores units one after another."""

from contextlib import ExitStack
from time import monotonic
from typing import Self

import structlog
from redis.exceptions import RedisError
from structlog.contextvars import bound_contextvars

from runtime.starting import LOG_S
from sandbox.errors import Busy, InfrastructureError
from storage.errors import OutcomesLost, PayloadLost
from storage.queue.leases import Lease, Unserved
from worker.context import WorkerContext
from worker.loaded_grader import GraderCache
from worker.outcome_writer import OutcomeWriter
from worker.redis_retry import retry_redis
from worker.unit import score
from worker.unit_queue import UnitQueue
from worker.unit_watch import SLICE_S, UnitWatch

_LONGEST_PAUSE_S = 15.0
_LONGEST_TURN_S = 1.0
_SPOOL_PAUSE_S = 2.0
_LOOK_S = 1.0  # between two checks whether sandboxes are available again: the pool retries at this interval
_OTHER_LOOP_S = SLICE_S + 2.0  # enough for the other loop to leave its unit for a waiting one, and to take that

_log = structlog.get_logger(__name__)


class ScoringLoop:
    """One scoring loop of a worker process. It takes only `unserved` units."""

    def __init__(self, context: WorkerContext, unserved: Unserved = "") -> None:
        self._context = context
        self.cache = GraderCache(context.store, context.pool, context.asker)
        self._queue = UnitQueue(context)
        self._writer = OutcomeWriter(context, self._queue)
        self._open = ExitStack()
        self._unserved = unserved
        self._made_room = False
        self._turn = ("", 0.0)  # the batch of the last unit, and until when the loop goes on with it

    def __enter__(self) -> Self:
        for part in (self._queue, self._writer, self.cache):
            self._open.enter_context(part)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def flush(self) -> None:
        """Returns once everything that was scored counts."""
        self._writer.flush()

    def work(self) -> bool:
        """Scores the next unit; False if none waits or the worker is stopping."""
        self._await_sandboxes()
        if self._context.stopping.is_set():
            return False
        # A loop that made room takes a unit that waits, even if the project or batch that it left has an earlier turn.
        # A loop for projects stays one, or a project with many slow batches would keep it.
        unserved: Unserved = self._unserved or ("batches" if self._made_room else "")
        batch, until = self._turn
        lease = self._queue.next(unserved, batch if not unserved and monotonic() < until else "")
        if lease is None and unserved != self._unserved:
            lease = self._queue.next(self._unserved)
        if lease is None:
            return False
        self._context.heartbeat.called.set()  # there may be more
        if lease.tries > 1:
            self.flush()  # the unit may crash this worker: without it, each try would lose the other units' outcomes
        with bound_contextvars(batch=lease.batch, chunk=lease.unit, attempt=lease.attempt):
            self._score(lease)
        return True

    def _await_sandboxes(self) -> None:
        """Waits until sandboxes are available. A worker without sandboxes takes no units: others may have sandboxes."""
        log_at = monotonic()
        while (trouble := self._context.pool.trouble()) is not None:
            if monotonic() >= log_at:
                _log.error("taking no units: no sandbox is available", trouble=trouble)
                self.cache.unload()
                log_at += LOG_S
            if self._context.stopping.wait(_LOOK_S):
                return

    def _score(self, lease: Lease) -> None:
        """Scores one unit, or gives it back after an error, which may have passed at the next attempt."""
        watch = UnitWatch(self._context, lease)
        self._made_room = False
        try:
            scored = retry_redis(self._context, lambda: score(self._context, self.cache, lease, watch))
        except Busy as error:
            _log.info("leaving a chunk to the other loop of this worker", reason=str(error))
            self._queue.give_back(lease, tried=False)
            self._context.stopping.wait(_OTHER_LOOP_S)
            return
        except OutcomesLost as error:
            _log.error("a chunk cannot be scored again, its outcomes stay as they are", error=str(error))
            if self._queue.keep_earlier(lease):
                self._writer.finish(lease.batch)
            return
        except RedisError:
            raise
        except Exception as error:  # noqa: BLE001  # a defect too: a chunk that is not given back waits for its lease
            is_known = isinstance(error, InfrastructureError | PayloadLost | OSError)
            log = _log.warning if is_known else _log.exception
            log("a chunk could not be scored, giving it back", error=str(error))
            self.cache.unload()
            self._put_off(lease, error)
            return
        self._made_room = watch.leaving
        if lease.batch != self._turn[0]:
            # A turn grades for as long as it loaded: many batches would load for each chunk.
            began, ended = self.cache.loading
            self._turn = lease.batch, ended + min(ended - began, _LONGEST_TURN_S)
        if scored is None:
            self._queue.give_back(lease, tried=not watch.leaving)
        else:
            self._writer.add(scored)

    def _put_off(self, lease: Lease, error: Exception) -> None:
        """Gives back a unit after an error. The pause before its next attempt holds up no other unit, unless the whole
        spool is in trouble, which is no fault of the unit.
        """
        if self._context.stopping.is_set():
            self._queue.give_back(lease, tried=False)
        elif isinstance(error, OSError | PayloadLost) and (trouble := self._context.store.spool.trouble()) is not None:
            self._queue.give_back(lease, tried=False)
            self._await_spool(trouble)
        elif isinstance(error, PayloadLost) and self._is_spool_there(lease.batch):
            self._queue.give_back(lease, tried=True)  # at once, because the payload never comes back
        else:
            self._queue.postpone(lease, min(2**lease.tries, _LONGEST_PAUSE_S))

    def _await_spool(self, error: OSError | None) -> None:
        """Waits until the spool can be used. No unit is taken meanwhile: each time is an attempt, and their numbers are
        limited to two bytes.
        """
        log_at = monotonic()
        while error is not None:
            self._context.spool_error = error
            if monotonic() >= log_at:
                _log.warning("taking no units: waiting for the spool", error=str(error))
                log_at += LOG_S
            if self._context.stopping.wait(_SPOOL_PAUSE_S):
                return
            error = self._context.store.spool.trouble()
        self._context.spool_error = None

    def _is_spool_there(self, batch: str) -> bool:
        try:
            return self._context.store.spool.is_there(batch)
        except OSError:  # it cannot be asked now
            return False
