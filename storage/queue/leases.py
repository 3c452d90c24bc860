"""Units of work, leased to workers for a limited time. The units of a dead worker go to other workers."""

import logging
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Literal

import msgspec
from redis import Redis
from redis.exceptions import RedisError

from storage.batch_plan import Lane
from storage.connection import script
from storage.statistics.outcome_tally import Tally, pack
from storage.statistics.unit_tallies import MOST, Tallies

_log = logging.getLogger(__name__)
LEASE_MS = 15_000
BEAT_S = 4.0
ATTEMPTS = 10
Unserved = Literal["", "projects", "batches"]
"""Whose units to lease: all; of projects without a lease; of these first, then of batches without a lease, unless a
project with fewer leases than theirs waits in the lane ''."""


class UnitPart(msgspec.Struct, frozen=True):
    """The stored outcomes of a unit that was given back before its end."""

    attempt: int
    """The attempt whose file has them."""
    outcomes: int


class Lease(msgspec.Struct, frozen=True):
    """One unit of one batch, leased to one worker until the lease runs out.

    Attempts count from 1. No two attempts of a unit have the same number, because it names a file. `tries` does not
    count attempts that were given back through no fault of the unit.
    """

    batch: str
    unit: int
    attempt: int
    tries: int = 1
    part: UnitPart | None = None
    earlier: int = 0
    """If the unit is scored again: the attempt whose outcomes count so far. Its retryable outcomes are scored again.
    Else 0.
    """

    def __str__(self) -> str:
        return f"{self.batch}:{self.unit}:{self.attempt}"


class Beat(msgspec.Struct, frozen=True):
    """The result of a heartbeat."""

    returned: int
    """The number of leases that had run out."""
    waiting: int
    """The number of projects with unleased units in the lane."""


class UnitStanding(IntEnum):
    """The state of a unit that is being scored, and whether others wait."""

    CANCELLED = -1
    """The batch was cancelled: no more outcomes are needed, and those that there are can still count."""
    OVER = 0
    """No more outcomes are needed: the lease was lost, or the batch has ended otherwise."""
    ALONE = 1
    SHARED = 2
    """A project with fewer leases than this one waits."""
    UNSERVED_BATCH = 3
    """A batch of this project without a lease waits, and in the lane '' no project with fewer leases does."""
    UNSERVED_PROJECT = 4
    """A project without a lease waits."""


class Completed(IntEnum):
    """The result of completing an attempt. It is true if the outcomes count."""

    NOT = 0
    """The lease was lost."""
    COUNTED = 1
    FINISHED = 2
    """Counted, and the batch is finished with it. A repeated call gets the same result."""
    OVER = 3
    """The batch has ended or was deleted. The outcomes count if an earlier call with a lost reply counted them."""

    def __bool__(self) -> bool:
        return self in (Completed.COUNTED, Completed.FINISHED)


class Leases:
    """All available units. Projects take turns, and within each project its batches do.

    Attributes:
        attempts: how often a unit is tried. After that, its outcomes are errors of kind `infrastructure`.
    """

    def __init__(self, redis: Redis, attempts: int = ATTEMPTS, lease_ms: int = LEASE_MS) -> None:
        self.attempts = attempts
        self._redis = redis
        self._lease_ms = lease_ms
        self._claim = script(redis, "claim_unit")
        self._beat = script(redis, "renew_leases")
        self._advance = script(redis, "record_progress")
        self._release = script(redis, "release_unit")
        self._postpone = script(redis, "postpone_unit")
        self._complete = script(redis, "complete_unit")
        self._keep_earlier = script(redis, "keep_earlier_outcomes")
        self._tallies = Tallies(redis)

    def claim(self, unserved: Unserved = "", *, lane: Lane = "", going_on: str = "") -> Lease | None:
        """Leases the next unit in turn of the lane, or None if none waits. If the batch `going_on` has units, one of
        them comes before all turns.
        """
        found = self._claim(args=[self._lease_ms, unserved, lane, going_on])
        if not found:
            return None
        batch, unit, attempt, tries, part_attempt, outcomes, earlier = found
        part = UnitPart(part_attempt, outcomes) if outcomes else None
        return Lease(batch.decode(), unit, attempt, tries, part, earlier)

    def beat(self, leases: Iterable[Lease], lane: Lane = "") -> Beat:
        """Extends these leases of a worker of the lane, and gives back all expired leases of any worker.

        If no worker has called it for longer than a lease lasts, as after an outage of Redis, it extends the expired
        leases once: their workers may live.
        """
        returned, waiting = self._beat(args=[self._lease_ms, lane, *map(str, leases)])
        return Beat(returned, waiting)

    def advance(self, lease: Lease, outcomes: int) -> UnitStanding:
        """Records how many outcomes the unit has so far."""
        return UnitStanding(self._advance(args=[*_place(lease), outcomes]))

    def release(self, lease: Lease, *, tried: bool = True, outcomes: int = 0) -> bool:
        """Gives the unit back at once, for any worker to take. Does nothing if the lease is no longer held.

        Args:
            tried: whether the unit itself may be the cause, so that this counts as one of its tries.
            outcomes: how many outcomes the file of this attempt has, for the next attempt to continue from.

        Returns whether the next attempt continues from that file.
        """
        return bool(self._release(args=[*_place(lease), int(tried), outcomes]))

    def postpone(self, lease: Lease, pause_s: float) -> None:
        """Gives the unit back after a pause, at most as long as a lease lasts: its lease runs out then, which counts as
        a try. The caller renews it no longer. Does nothing if the lease is no longer held.
        """
        self._postpone(args=[*_place(lease), min(round(pause_s * 1000), self._lease_ms)])

    def keep_earlier(self, lease: Lease) -> bool:
        """Ends a unit that was to be scored again and cannot be: its earlier outcomes stay. Does nothing if the lease
        is no longer held. Returns whether the batch is finished with it. Can be repeated if the reply is lost.
        """
        return bool(self._keep_earlier(args=_place(lease)))

    def complete_all(self, units: Sequence[tuple[Lease, int, Tally, int]]) -> list[Completed]:
        """Makes the outcomes of these attempts the ones that count. Can be repeated if the reply is lost. Redis writes
        them to disk together.

        Each is a lease, the number of its grader, the tally of the outcomes that do not count yet (if the unit is
        scored again, those that were retryable), and how many bytes all of its outcomes take in the spool.
        """
        with self._redis.pipeline(transaction=False) as pipe:
            for lease, grader_number, counted, size in units:
                items: list[str | int | float | bytes] = [*_place(lease), grader_number, size, pack(counted)]
                items += [counted.count, counted.scored]
                for error in counted.errors.items():
                    items += error
                self._complete(args=items, client=pipe)
            answers = pipe.execute()
        for (lease, grader_number, *_), (completed, tallies) in zip(units, answers, strict=True):
            # At each multiple: one of several workers merges, and a later one does if that fails.
            if completed == Completed.COUNTED and tallies and tallies % MOST == 0:
                self._merge(lease.batch, grader_number)
        return [Completed(completed) for completed, _ in answers]

    def _merge(self, batch_id: str, grader_number: int) -> None:
        """Merges the batch's tallies, which makes them smaller without changing the statistics."""
        try:
            self._tallies.merge(batch_id, grader_number)
        except (RedisError, msgspec.DecodeError) as error:  # the completion must still be reported
            _log.warning("the statistics of a batch could not be merged", exc_info=error)


def _place(lease: Lease) -> tuple[str, int, int]:
    return lease.batch, lease.unit, lease.attempt
