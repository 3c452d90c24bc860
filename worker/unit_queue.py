"""The units that a loop of a worker takes and gives back."""

from types import TracebackType
from typing import Self

from storage.leases import Lease
from worker.context import WorkerContext
from worker.redis_retry import retry_redis


class UnitQueue:
    """Leases that the heartbeat keeps until the unit counts, is given back, or the block ends.

    `starving`: takes units only of projects that have no lease.
    """

    def __init__(self, context: WorkerContext, *, starving: bool = False) -> None:
        self._context = context
        self._starving = starving
        self._held: set[Lease] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for lease in list(self._held):
            self.drop(lease)  # what could not be given back comes back when its lease runs out

    def next(self, *, starving: bool = False) -> Lease | None:
        """A unit, or None where none waits. With `starving`, only of a project that has no lease."""
        starving = starving or self._starving
        lease = retry_redis(
            self._context, lambda: self._context.store.leases.claim(starving=starving, lane=self._context.lane)
        )
        if lease is not None:
            self._held.add(lease)
            self._context.heartbeat.leases.add(lease)
        return lease

    def give_back(self, lease: Lease, *, tried: bool, outcomes: int = 0) -> bool:
        """A unit that is not scored to its end: another worker may take it. As `Leases.release`."""
        release = self._context.store.leases.release
        kept = retry_redis(self._context, lambda: release(lease, tried=tried, outcomes=outcomes))
        self._context.metrics.given_back.inc()
        self.drop(lease)
        return kept

    def drop(self, lease: Lease) -> None:
        """A lease that is no longer to be kept."""
        self._held.discard(lease)
        self._context.heartbeat.leases.discard(lease)
