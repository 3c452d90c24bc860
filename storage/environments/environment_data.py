"""Data that is provided beside the packages of environments: for each upload, a zip file in the spool as it was sent.

A project refers to its data by SHA-256. Data that no build names is removed a day after it was sent.
"""

from typing import IO

import msgspec
from redis import Redis
from redis.client import Pipeline

from storage import redis_keys
from storage.access.quotas import Quotas
from storage.connection import seconds, text, transaction
from storage.environments import environment_records as records
from storage.errors import NotFound
from storage.spool.spool import Spool

KEPT_S = 24 * 3600.0  # at least, since it was last sent


class Kept(msgspec.Struct, frozen=True):
    """One zip file: its id in the spool, the time it was last sent, and its size in bytes."""

    id: str
    sent_at: float
    size: int = 0


class EnvironmentDataStore:
    """The data of all projects. Each change is one transaction."""

    def __init__(self, redis: Redis, spool: Spool, quotas: Quotas) -> None:
        self._redis = redis
        self._spool = spool
        self._quotas = quotas

    def check_room(self, project: str) -> None:
        """Raises QuotaExceeded if the project has reached its quota of data."""
        self._quotas.check_data(project, self._redis.hlen(redis_keys.environment_data(project)))

    def keep(self, project: str, sha256: str, upload_id: str, size: int) -> None:
        """Stores a finished upload for at least a day, and for as long as a build names it. Identical data is stored
        once.

        Raises:
            QuotaExceeded: the project has reached its quota of data or of bytes in the spool.
        """

        def keep(pipe: Pipeline) -> None:
            value = pipe.hget(redis_keys.environment_data(project), sha256)
            before = msgspec.json.decode(value, type=Kept) if value is not None else None
            if before is None:
                self._quotas.check_data(project, pipe.hlen(redis_keys.environment_data(project)))
                self._quotas.check_bytes(project, int(pipe.hget(redis_keys.STORED, project) or 0), size)
            now = seconds(pipe)
            # A file that was lost is replaced.
            used = before.id if before is not None and self._spool.has_data(before.id) else upload_id
            pipe.multi()
            kept = msgspec.json.encode(Kept(used, now, size))
            pipe.hincrby(redis_keys.STORED, project, size - (before.size if before else 0))
            pipe.hset(redis_keys.environment_data(project), sha256, kept)
            pipe.zrem(redis_keys.UPLOADS, upload_id)
            if used != upload_id:
                pipe.zadd(redis_keys.GARBAGE, {upload_id: now})

        transaction(self._redis, keep, redis_keys.environment_data(project))

    def open(self, project: str, sha256: str) -> IO[bytes]:
        """The data as it was sent. Raises NotFound, or OSError if the spool does not have it."""
        value = self._redis.hget(redis_keys.environment_data(project), sha256)
        if value is None:
            raise NotFound(f"project {project!r} has no data with the SHA-256 {sha256}")
        return self._spool.open_data(msgspec.json.decode(value, type=Kept).id)

    def ids(self) -> set[str]:
        """The spool ids of all stored data."""
        return {kept.id for project in self._projects() for kept in self._kept(self._redis, project).values()}

    def sweep(self) -> list[str]:
        """Forgets data that no build names, a day after it was sent, and condemns its files. Returns the SHA-256 of
        each.
        """
        return [sha256 for project in self._projects() for sha256 in self._sweep(project)]

    def _sweep(self, project: str) -> list[str]:
        def sweep(pipe: Pipeline) -> list[str]:
            kept, now = self._kept(pipe, project), seconds(pipe)
            old = {sha256: each for sha256, each in kept.items() if each.sent_at < now - KEPT_S}
            named = {build.data for build in records.read_builds_of_all(pipe, project)} if old else set()
            unnamed = {sha256: each for sha256, each in old.items() if sha256 not in named}
            pipe.multi()
            if unnamed:
                pipe.hdel(redis_keys.environment_data(project), *unnamed)
                pipe.hincrby(redis_keys.STORED, project, -sum(each.size for each in unnamed.values()))
                pipe.zadd(redis_keys.GARBAGE, {each.id: now for each in unnamed.values()})
            return sorted(unnamed)

        # Each new build changes the second.
        return transaction(self._redis, sweep, redis_keys.environment_data(project), redis_keys.environments(project))

    def _projects(self) -> list[str]:
        prefix = redis_keys.environment_data("")
        return [text(name).removeprefix(prefix) for name in self._redis.scan_iter(f"{prefix}*", count=1000)]

    def _kept(self, redis: Redis, project: str) -> dict[str, Kept]:
        found = redis.hgetall(redis_keys.environment_data(project))
        return {text(sha256): msgspec.json.decode(value, type=Kept) for sha256, value in found.items()}
