"""Takes units for a loop of a worker, and gives them back."""

from typing import Self

from storage.queue.leases import Lease, Unserved
from worker.context import WorkerContext
from worker.redis_retry import retry_redis


class UnitQueue:
    """The leases of a loop. The heartbeat renews each until its unit counts, is given back, or the block ends."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._held: set[Lease] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for lease in list(self._held):
            self.drop(lease)  # a unit that could not be given back is given back when its lease expires

    def next(self, unserved: Unserved = "", going_on: str = "") -> Lease | None:
        """Leases a unit; None if none waits. Arguments as in `Leases.claim`."""
        claim = self._context.store.leases.claim
        lease = retry_redis(self._context, lambda: claim(unserved, lane=self._context.lane, going_on=going_on))
        if lease is not None:
            self._held.add(lease)
            self._context.heartbeat.leases.add(lease)
        return lease

    def give_back(self, lease: Lease, *, tried: bool, outcomes: int = 0) -> bool:
        """Gives back an unfinished unit, which another worker may take. Arguments and result as in `Leases.release`."""
        release = self._context.store.leases.release
        kept = retry_redis(self._context, lambda: release(lease, tried=tried, outcomes=outcomes))
        self._context.metrics.given_back.inc()
        self.drop(lease)
        return kept

    def postpone(self, lease: Lease, pause_s: float) -> None:
        """Gives back a unit after a pause, as `Leases.postpone` does. Other units can be scored meanwhile."""
        self.drop(lease)  # first, because a heartbeat would extend the pause
        retry_redis(self._context, lambda: self._context.store.leases.postpone(lease, pause_s))

    def keep_earlier(self, lease: Lease) -> bool:
        """Ends a unit that cannot be scored again: its earlier outcomes stay. Returns whether the batch is finished."""
        is_finished = retry_redis(self._context, lambda: self._context.store.leases.keep_earlier(lease))
        self.drop(lease)
        return is_finished

    def drop(self, lease: Lease) -> None:
        """Stops the renewal of a lease."""
        self._held.discard(lease)
        self._context.heartbeat.leases.discard(lease)
