"""Units of work, lent to workers for a while: what a dead worker had is given to another."""

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import IntEnum

import msgspec
from redis import Redis
from redis.exceptions import RedisError

from storage.batch_plan import Lane
from storage.connection import script
from storage.statistics import Tally, pack
from storage.tallies import MOST, Tallies

_log = logging.getLogger(__name__)
LEASE_MS = 15_000
BEAT_S = 4.0
ATTEMPTS = 10


class UnitPart(msgspec.Struct, frozen=True):
    """The outcomes that are kept of a unit which was given back before its end."""

    attempt: int
    """Whose file they are in."""
    outcomes: int


class Lease(msgspec.Struct, frozen=True):
    """One unit of one batch, this worker's until the lease runs out.

    Attempts count from 1, and no two of a unit have the same number: it names a file. `tries` leaves out those attempts
    that were given back for no fault of the unit's.
    """

    batch: str
    unit: int
    attempt: int
    tries: int = 1
    part: UnitPart | None = None
    earlier: int = 0
    """Whose outcomes count, where the unit is scored again: the retryable ones of them are wanted. Else 0."""

    def __str__(self) -> str:
        return f"{self.batch}:{self.unit}:{self.attempt}"


class Beat(msgspec.Struct, frozen=True):
    """What a heartbeat found."""

    returned: int
    """Leases that had run out."""
    waiting: int
    """Projects that have units in the lane which no worker has taken."""


class UnitStanding(IntEnum):
    """How a unit stands that is being scored, and who waits."""

    OVER = 0
    """No more outcomes are wanted: the lease was lost, or the batch is over."""
    ALONE = 1
    SHARED = 2
    """A project waits that has fewer leases than this one."""
    STARVING = 3
    """A project waits that has none."""


class Completed(IntEnum):
    """What became of the outcomes of an attempt. What counts is true."""

    NOT = 0
    """The lease was lost."""
    COUNTED = 1
    FINISHED = 2
    """Counted, and the batch is finished with it. A repeated call gets the same answer."""
    OVER = 3
    """The batch was over, or is gone: they count if they were counted before the question was repeated."""

    def __bool__(self) -> bool:
        return self in (Completed.COUNTED, Completed.FINISHED)


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
        self._tallies = Tallies(redis)

    def claim(self, *, starving: bool = False, lane: Lane = "") -> Lease | None:
        """The next unit of the project and batch whose turn it is in the lane, or None where nothing waits. With
        `starving`, only projects that have no lease have a turn.
        """
        found = self._claim(args=[self._lease_ms, _now(), int(starving), lane])
        if not found:
            return None
        batch, unit, attempt, tries, part_attempt, outcomes, earlier = found
        part = UnitPart(part_attempt, outcomes) if outcomes else None
        return Lease(batch.decode(), unit, attempt, tries, part, earlier)

    def beat(self, leases: Iterable[Lease], lane: Lane = "") -> Beat:
        """Extends these leases of a worker of the lane, and gives back all leases that ran out, of any worker."""
        returned, waiting = self._beat(args=[self._lease_ms, lane, *map(str, leases)])
        return Beat(returned, waiting)

    def advance(self, lease: Lease, outcomes: int) -> UnitStanding:
        """Notes how many outcomes of the unit there are."""
        return UnitStanding(self._advance(args=[lease.batch, lease.unit, lease.attempt, outcomes]))

    def release(self, lease: Lease, *, tried: bool = True, outcomes: int = 0) -> bool:
        """Gives the unit back at once, for any worker to take. A lease that is not held is none to give back.

        Args:
            tried: whether the unit may be why it was not done: it is tried only so often.
            outcomes: how many the file of this attempt holds, for the next one to go on from.

        Returns whether that file is the one that the next attempt goes on from.
        """
        return bool(self._release(args=[lease.batch, lease.unit, lease.attempt, int(tried), outcomes]))

    def complete(self, lease: Lease, grader_number: int, counted: Tally, size: int = 0) -> Completed:
        """Makes this attempt's outcomes the ones that count. May be asked again when the answer did not arrive.

        `counted` are those that do not count yet: of a unit that is scored again, those that were retryable. `size` is
        how many bytes all of them take in the spool.
        """
        (completed,) = self.complete_all([(lease, grader_number, counted, size)])
        return completed

    def complete_all(self, units: Iterable[tuple[Lease, int, Tally, int]]) -> list[Completed]:
        """What `complete` does, for several units: Redis takes them to its disk together."""
        units = list(units)
        with self._redis.pipeline(transaction=False) as pipe:
            for lease, grader_number, counted, size in units:
                told: list[str | int | float | bytes] = [lease.batch, lease.unit, lease.attempt, grader_number, _now()]
                told += [size, pack(counted), counted.count, counted.scored]
                for error in counted.errors.items():
                    told += error
                self._complete(args=told, client=pipe)
            answers = pipe.execute()
        for (lease, grader_number, *_), (completed, tallies) in zip(units, answers, strict=True):
            # at each multiple, so that of several workers one does it, and another later should it fail
            if completed == Completed.COUNTED and tallies and tallies % MOST == 0:
                self._merge(lease.batch, grader_number)
        return [Completed(completed) for completed, _ in answers]

    def _merge(self, batch_id: str, grader_number: int) -> None:
        """Makes the batch's statistics smaller, which changes nothing of what they say."""
        try:
            self._tallies.merge(batch_id, grader_number)
        except (RedisError, msgspec.DecodeError) as error:  # what is completed has to be told
            _log.warning("the statistics of a batch stay longer than they need to be", exc_info=error)


def _now() -> str:
    return datetime.now(UTC).isoformat()
