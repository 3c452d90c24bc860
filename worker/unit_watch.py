"""Checks, while a unit is scored, whether to continue with it."""

from time import monotonic

from redis.exceptions import RedisError

from storage.connection import is_away
from storage.queue.leases import Lease, UnitStanding
from worker.context import WorkerContext

LOOK_S = 0.25
SLICE_S = 10.0  # after which a unit makes room for a waiting project or batch
UNSERVED_LOOP_S = 1.0  # after which the other loops may take units of unserved projects and batches
_STOP_SHARE = 0.6  # of `stop_s`, for the current completion; the rest is for writing the outcomes


class UnitWatch:
    """The watch of one unit.

    Attributes:
        over: no more outcomes of the unit are wanted.
        cancelled: they are not wanted because the batch was cancelled: those that there are can still count.
        leaving: the unit is to be left, with its outcomes kept, now or once the current completion is done.
    """

    def __init__(self, context: WorkerContext, lease: Lease) -> None:
        self._context = context
        self._lease = lease
        self._began = self._looked = self._slice_began = monotonic()
        self._before: int | None = None
        self._done = 0
        self._left_at = 0.0
        self.over = False
        self.cancelled = False
        self.leaving = False

    def is_enough(self, outcomes: int) -> bool:
        """Whether to stop now, when the unit has this number of outcomes."""
        now = monotonic()
        self._before = outcomes if self._before is None else self._before
        if outcomes == self._before:  # a grader whose module loads slowly has time to grade, too
            self._slice_began = min(now, self._began + SLICE_S)
        if self._context.stopping.is_set():
            self._leave(outcomes, now)
            if self._context.asker is not None:
                self._context.asker.send_no_more()
        if now - self._looked >= LOOK_S:
            self._looked = now
            self._look(outcomes, now)
        return self.over or (self.leaving and (self._is_done(outcomes) or self._is_late(now)))

    def _is_done(self, outcomes: int) -> bool:
        """Whether a unit that is to be left has what it waits for: an outcome, or the answers that are paid for."""
        asker = self._context.asker
        return outcomes > self._done if asker is None else not asker.has_sent

    def _look(self, outcomes: int, now: float) -> None:
        standing = self._standing(outcomes)
        self.cancelled = standing == UnitStanding.CANCELLED
        self.over = self.cancelled or standing == UnitStanding.OVER
        if standing >= UnitStanding.UNSERVED_BATCH and now - self._began > UNSERVED_LOOP_S:
            self._context.unserved_batch.set()
            if standing == UnitStanding.UNSERVED_PROJECT:
                self._context.unserved_project.set()
        # An abandoned ask is paid for, so a chunk that waits for models is not left; it uses no processor meanwhile.
        if standing >= UnitStanding.SHARED and now - self._slice_began > SLICE_S and self._context.lane != "asking":
            self._leave(outcomes, now)

    def _leave(self, outcomes: int, now: float) -> None:
        if not self.leaving:
            self.leaving, self._done, self._left_at = True, outcomes, now

    def _is_late(self, now: float) -> bool:
        return self._context.stopping.is_set() and now - self._left_at > _STOP_SHARE * self._context.stop_s

    def _standing(self, outcomes: int) -> UnitStanding:
        try:
            return self._context.store.leases.advance(self._lease, outcomes)
        except RedisError as error:
            if is_away(error):
                return UnitStanding.ALONE  # Redis may be back when the unit is done
            raise
