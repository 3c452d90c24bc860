"""What each project has waiting to be scored, and how much it may have: a service that takes all finishes nothing."""

import msgspec
from redis import Redis

from storage import names
from storage.errors import QueueFull, TooLarge
from storage.quotas import Quotas


class Waiting(msgspec.Struct, frozen=True):
    """How much of one project waits to be scored."""

    completions: int
    """For several graders, each counts."""
    batches: int


MOST_WAITING = Waiting(20_000_000, 10_000)


class Usage(msgspec.Struct, frozen=True):
    """What a project has: waiting to be scored, and kept in all."""

    waiting: Waiting
    batches: int
    """Those that are over included."""
    spool_bytes: int


class ProjectBounds(msgspec.Struct, frozen=True):
    """The most of each that a project may have, as the script `accept` takes it."""

    completions: int
    waiting_batches: int
    batches: int
    spool_bytes: int


class Backlog:
    """Of all projects. `most` is what one of them may have waiting, `quotas` what it may keep."""

    def __init__(self, redis: Redis, most: Waiting = MOST_WAITING, quotas: Quotas | None = None) -> None:
        self.most = most
        self._quotas = quotas or Quotas()
        self._redis = redis

    def of(self, project: str) -> Waiting:
        """What the project's batches that are not over still have to come."""
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hget(names.WAITING, project)
            pipe.hget(names.ACTIVE, project)
            completions, batches = pipe.execute()
        return Waiting(int(completions or 0), int(batches or 0))

    def check(self, project: str, completions: int = 1, size: int = 0) -> None:
        """Whether the project may have one more batch, of so many completions and bytes. Others may be accepted before
        it is, so `Batches.accept` looks again.

        Raises:
            TooLarge: it is more than a project may ever have waiting.
            QueueFull: it does not fit now.
            QuotaExceeded: the project keeps as much as it may.
        """
        self.refuse(project, self._usage(project), completions, size)

    def check_again(self, project: str, completions: int) -> None:
        """Whether so many completions of a batch that the project has may wait again. Raises as `check` does, but for
        what is kept.
        """
        usage = self._usage(project)
        self.refuse(project, Usage(usage.waiting, 0, 0), completions, 0)

    @property
    def bounds(self) -> ProjectBounds:
        """What the script `accept` holds a project to."""
        most, quotas = self.most, self._quotas
        return ProjectBounds(most.completions, most.batches, quotas.batches, quotas.spool_bytes)

    def refuse(self, project: str, usage: Usage, completions: int, size: int) -> None:
        """Raises what `check` raises where a batch does not fit beside what the project has."""
        self._quotas.check_batches(project, usage.batches)
        self._quotas.check_bytes(project, usage.spool_bytes, size)
        now, most = usage.waiting, self.most
        if completions > most.completions:
            raise TooLarge(
                f"the batch has {completions} completions, counted for each grader, and a project may have "
                f"{most.completions} waiting: send several batches, or raise GRADEBOX_WAITING_COMPLETIONS"
            )
        if now.completions + completions > most.completions or now.batches >= most.batches:
            raise QueueFull(
                f"project {project!r} has {now.completions} completions in {now.batches} batches waiting to be scored, "
                f"and at most {most.completions} in {most.batches} are taken: wait until some are done, or cancel some"
            )

    def has_room(self, project: str) -> bool:
        """Whether the project's batches take fewer bytes of the spool than they may."""
        return int(self._redis.hget(names.STORED, project) or 0) <= self._quotas.spool_bytes

    def check_uploads(self, project: str, size: int) -> None:
        """Whether so many bytes of uploads that are under way fit. Raises QuotaExceeded."""
        self._quotas.check_bytes(project, int(self._redis.hget(names.STORED, project) or 0), size)

    def _usage(self, project: str) -> Usage:
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hget(names.WAITING, project)
            pipe.hget(names.ACTIVE, project)
            pipe.zcard(names.batches(project))
            pipe.hget(names.STORED, project)
            completions, active, batches, stored = pipe.execute()
        return Usage(Waiting(int(completions or 0), int(active or 0)), batches, int(stored or 0))
