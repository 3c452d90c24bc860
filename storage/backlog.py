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
        """Whether the project may have one more batch waiting, of so many completions and bytes.

        The bound is a soft one: of several that are accepted in the same moment, all may still fit.

        Raises:
            TooLarge: it is more than a project may ever have waiting.
            QueueFull: it does not fit now.
            QuotaExceeded: the project keeps as much as it may.
        """
        self._check_kept(project, size)
        now, most = self.of(project), self.most
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

    def _check_kept(self, project: str, size: int) -> None:
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.zcard(names.batches(project))
            pipe.hget(names.STORED, project)
            batches, stored = pipe.execute()
        self._quotas.check_batches(project, batches)
        self._quotas.check_bytes(project, int(stored or 0), size)
