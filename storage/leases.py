"""Units of work, lent to workers for a while: what a dead worker had is given to another."""

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import IntEnum

import msgspec
from redis import Redis

from storage.connection import script
from storage.tally import Tally, arguments

LEASE_MS = 15_000
BEAT_S = 4.0
ATTEMPTS = 10


class Lease(msgspec.Struct, frozen=True):
    """One unit of one batch, this worker's until the lease runs out. Attempts count from 1."""

    batch: str
    unit: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.batch}:{self.unit}:{self.attempt}"


class Beat(msgspec.Struct, frozen=True):
    """What a heartbeat found."""

    returned: int
    """Leases that had run out."""
    waiting: int
    """Projects that have units no worker has taken."""


class Completed(IntEnum):
    """What became of the outcomes of an attempt. What counts is true."""

    NOT = 0
    """The lease was lost, or the batch was cancelled or deleted."""
    COUNTED = 1
    FINISHED = 2
    """Counted, and the batch is finished with it. Said again to whoever asks again."""


class Leases:
    """All units that can be taken: projects take turns, and within each its batches.

    Attributes:
        attempts: how often a unit is tried; after that its outcomes are errors of kind `infrastructure`.
    """

    def __init__(self, redis: Redis, attempts: int = ATTEMPTS, lease_ms: int = LEASE_MS) -> None:
        self.attempts = attempts
        self._redis = redis
        self._lease_ms = lease_ms
        self._claim = script(redis, "claim")
        self._beat = script(redis, "beat")
        self._advance = script(redis, "advance")
        self._release = script(redis, "release")
        self._complete = script(redis, "complete")

    def claim(self) -> Lease | None:
        """The next unit of the project and batch whose turn it is, or None where nothing waits."""
        return next(iter(self.claim_some(1)), None)

    def claim_some(self, most: int) -> list[Lease]:
        """The next units of the project and batch whose turn it is: fewer where few are left, none where none waits."""
        found = self._claim(args=[self._lease_ms, _now(), most])
        return [Lease(batch.decode(), unit, attempt) for batch, unit, attempt in found]

    def beat(self, leases: Iterable[Lease]) -> Beat:
        """Extends these leases, and gives back all those that ran out, whoever had them."""
        returned, waiting = self._beat(args=[self._lease_ms, *map(str, leases)])
        return Beat(returned, waiting)

    def advance(self, lease: Lease, outcomes: int) -> bool:
        """Notes how many outcomes of the unit there are; False where no more are wanted: the lease was lost, or the
        batch is over.
        """
        return bool(self._advance(args=[lease.batch, lease.unit, lease.attempt, outcomes]))

    def release(self, lease: Lease, *, tried: bool = True) -> None:
        """Gives the unit back at once, for any worker to take; as if it had never been lent, where it was not tried
        to its end and wrote nothing.
        """
        self._release(args=[lease.batch, lease.unit, lease.attempt, int(tried)])

    def complete(self, lease: Lease, grader_number: int, counted: Tally) -> Completed:
        """Makes this attempt's outcomes the ones that count. May be asked again when the answer did not arrive."""
        (completed,) = self.complete_all([(lease, grader_number, counted)])
        return completed

    def complete_all(self, units: Iterable[tuple[Lease, int, Tally]]) -> list[Completed]:
        """What `complete` does, for several units: Redis takes them to its disk together."""
        with self._redis.pipeline(transaction=False) as pipe:
            for lease, grader_number, counted in units:
                head: list[str | int | float] = [lease.batch, lease.unit, lease.attempt, grader_number, _now()]
                self._complete(args=[*head, *arguments(counted)], client=pipe)
            return [Completed(found) for found in pipe.execute()]


def _now() -> str:
    return datetime.now(UTC).isoformat()
