"""Scores units one after the other."""

from contextlib import ExitStack
from time import monotonic
from types import TracebackType
from typing import Self

import structlog
from structlog.contextvars import bound_contextvars

from sandbox.errors import Busy, InfrastructureError
from storage.errors import PayloadLost
from storage.leases import Lease
from worker.context import WorkerContext
from worker.loaded_grader import GraderCache
from worker.redis_retry import retry_redis
from worker.result_writer import ResultWriter
from worker.unit import score
from worker.unit_queue import UnitQueue
from worker.unit_watch import SLICE_S, UnitWatch

_LONGEST_PAUSE_S = 30.0
_LOOK_S = 1.0  # between two looks whether sandboxes can be had again: the pool tries that often
_TOLD_S = 30.0  # between two lines of the log that say they cannot
_OTHER_LOOP_S = SLICE_S + 2.0  # in which the other loop leaves its unit for one that waits, and takes that

_log = structlog.get_logger(__name__)


class ScoringLoop:
    """One of a worker process. `starving`: for projects alone that have no lease."""

    def __init__(self, context: WorkerContext, *, starving: bool = False) -> None:
        self._context = context
        self.cache = GraderCache(context.store, context.pool, context.asker)
        self._queue = UnitQueue(context, starving=starving)
        self._writer = ResultWriter(context, self._queue)
        self._open = ExitStack()
        self._made_room = False

    def __enter__(self) -> Self:
        for part in (self._queue, self._writer, self.cache):
            self._open.enter_context(part)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.close()

    def flush(self) -> None:
        """Returns when all that was scored counts."""
        self._writer.flush()

    def work(self) -> bool:
        """Scores the next unit; False where none waits, or the worker is to stop."""
        self._await_sandboxes()
        if self._context.stopping.is_set():
            return False
        # Who made room for a project that waits serves it: its own project may be before that one in the turns.
        lease = (self._queue.next(starving=True) if self._made_room else None) or self._queue.next()
        if lease is None:
            return False
        self._context.heartbeat.called.set()  # there may be more
        if lease.tries > 1:
            self.flush()  # it may end this worker, and then nothing else is to be lost with it, again and again
        with bound_contextvars(batch=lease.batch, chunk=lease.unit, attempt=lease.attempt):
            self._score(lease)
        return True

    def _await_sandboxes(self) -> None:
        """A worker that can have no sandbox takes no unit: others may have some."""
        tell_at = monotonic()
        while (trouble := self._context.pool.trouble()) is not None:
            if monotonic() >= tell_at:
                _log.error("no units are taken: no sandbox can be had", trouble=trouble)
                self.cache.unload()
                tell_at += _TOLD_S
            if self._context.stopping.wait(_LOOK_S):
                return

    def _score(self, lease: Lease) -> None:
        """Scores one unit, or gives it back: what stands in the way may have passed when it comes again.

        A payload that is lost does not come back, so that is not waited for: other batches are.
        """
        watch = UnitWatch(self._context, lease)
        self._made_room = False
        try:
            scored = retry_redis(self._context, lambda: score(self._context, self.cache, lease, watch))
        except Busy as error:
            _log.info("a chunk is left to the other loop of this worker", reason=str(error))
            self._queue.give_back(lease, tried=False)
            self._context.stopping.wait(_OTHER_LOOP_S)
            return
        except (InfrastructureError, PayloadLost, OSError) as error:
            pause = 0.0 if isinstance(error, PayloadLost) else min(2.0**lease.tries, _LONGEST_PAUSE_S)
            _log.warning("a chunk could not be scored and is given back", next_after_s=pause, error=str(error))
            self.cache.unload()
            self._queue.give_back(lease, tried=not self._context.stopping.is_set())
            self._context.stopping.wait(pause)
            return
        self._made_room = watch.leaving
        if scored is None:
            self._queue.give_back(lease, tried=not watch.leaving)
        else:
            self._writer.add(scored)
