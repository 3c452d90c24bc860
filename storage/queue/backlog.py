"""The work that each project has waiting, and its bounds: a service that accepts everything finishes nothing."""

import threading
from collections import Counter

import msgspec
from redis import Redis

from storage import redis_keys
from storage.access.quotas import Quotas
from storage.errors import QueueFull, TooLarge


class Waiting(msgspec.Struct, frozen=True):
    """The amount of work that one project has waiting to be scored."""

    completions: int
    """A completion counts once for each grader."""
    batches: int


MOST_WAITING = Waiting(20_000_000, 10_000)
_ASK_BYTES = 8 * 1024 * 1024  # of a project's uploads, between two questions to Redis, which cost 0.1 ms each


class Usage(msgspec.Struct, frozen=True):
    """The usage of a project: waiting work, and everything stored."""

    waiting: Waiting
    batches: int
    """Including ended ones."""
    spool_bytes: int


class Backlog:
    """The waiting work of all projects. `most` bounds what one project may have waiting, `quotas` what it may store."""

    def __init__(self, redis: Redis, most: Waiting = MOST_WAITING, quotas: Quotas | None = None) -> None:
        self.most = most
        self._quotas = quotas or Quotas()
        self._redis = redis
        self._lock = threading.Lock()
        self._uploads: Counter[str] = Counter()

    def check(self, project: str, completions: int = 1, size: int = 0) -> None:
        """Checks that the project may have one more batch with this many completions and bytes. Other batches may be
        accepted before it is, so `Acceptance.accept` checks again.

        Raises:
            TooLarge: the batch exceeds what a project may ever have waiting.
            QueueFull: it does not fit now.
            QuotaExceeded: the project has reached its quota.
        """
        self.refuse(project, self.usage(project), completions, size)

    def check_again(self, project: str, completions: int) -> None:
        """Checks that this many completions of an existing batch of the project may wait again. Raises TooLarge and
        QueueFull as `check` does; the storage quotas do not apply.
        """
        self.refuse(project, Usage(self.usage(project).waiting, 0, 0), completions, 0)

    @property
    def bounds(self) -> Usage:
        """The highest usage of a project, which the script `accept_batch` enforces."""
        return Usage(self.most, self._quotas.batches, self._quotas.spool_bytes)

    def refuse(self, project: str, usage: Usage, completions: int, size: int) -> None:
        """Raises the errors of `check` if a batch does not fit beside this usage of the project."""
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
        """Whether the project's batches are within its spool quota."""
        return int(self._redis.hget(redis_keys.STORED, project) or 0) <= self._quotas.spool_bytes

    def count_upload(self, project: str, more: int) -> None:
        """Counts bytes of a running upload in this process; `more` is negative if the upload is over. Raises
        QuotaExceeded if the project's running uploads together exceed its quota.
        """
        with self._lock:
            self._uploads[project] += more
            total = self._uploads[project]
            if total <= 0:
                del self._uploads[project]
        if total // _ASK_BYTES > (total - more) // _ASK_BYTES:
            self._quotas.check_bytes(project, int(self._redis.hget(redis_keys.STORED, project) or 0), total)

    def usage(self, project: str) -> Usage:
        """The usage of a project now."""
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hget(redis_keys.WAITING, project)
            pipe.hget(redis_keys.ACTIVE, project)
            pipe.zcard(redis_keys.batches(project))
            pipe.hget(redis_keys.STORED, project)
            completions, active, batches, stored = pipe.execute()
        return Usage(Waiting(int(completions or 0), int(active or 0)), batches, int(stored or 0))
