"""The running processes of the service, and what prevents them from working."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog
from redis import Redis
from redis.exceptions import RedisError

from runtime import health_file, thread_failures
from runtime.periodic_thread import PeriodicThread
from storage import redis_keys
from storage.batch_plan import Lane
from storage.connection import seconds

TELL_S = 5.0  # interval between two reports of a process
ROLES: dict[Lane, str] = {"": "worker", "asking": "asking-worker"}

_log = structlog.get_logger(__name__)


class ProcessRecord(msgspec.Struct, frozen=True):
    """The last report of one process."""

    role: str
    name: str
    """`host:pid`."""
    at: float = 0.0
    trouble: str = ""
    """Why it cannot work; empty if it can."""


class Processes:
    """All processes that reported recently."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    def report(self, record: ProcessRecord) -> None:
        """Records that a process is running."""
        told = msgspec.json.encode(msgspec.structs.replace(record, at=seconds(self._redis)))
        self._redis.hset(redis_keys.PROCESSES, _field(record), told)

    def leave(self, record: ProcessRecord) -> None:
        """Records that a process ends."""
        self._redis.hdel(redis_keys.PROCESSES, _field(record))

    def there(self) -> list[ProcessRecord]:
        """The processes that reported recently. It changes nothing."""
        now = seconds(self._redis)
        records = [msgspec.json.decode(found, type=ProcessRecord) for found in self._redis.hvals(redis_keys.PROCESSES)]
        return [record for record in records if _is_recent(record, now)]

    def workers(self, lane: Lane = "") -> list[ProcessRecord]:
        """The running workers of the lane."""
        return [record for record in self.there() if record.role == ROLES[lane]]

    def forget_silent(self) -> None:
        """Removes the records of processes that ended without `leave`."""
        now = seconds(self._redis)
        for name, found in self._redis.hgetall(redis_keys.PROCESSES).items():
            if not _is_recent(msgspec.json.decode(found, type=ProcessRecord), now):
                self._redis.hdel(redis_keys.PROCESSES, name)


class Presence(PeriodicThread):
    """A thread in each process of the service that reports every few seconds that the process is running.

    `trouble` returns what prevents the process from working, apart from threads of it that have died. After each
    report, the same is written to `file` if there is one.
    """

    def __init__(
        self, processes: Processes, role: str, trouble: Callable[[], str | None], file: Path | None = None
    ) -> None:
        super().__init__("presence", self._report, TELL_S)
        self._processes = processes
        self._role = role
        self._trouble = trouble
        self._file = file

    def _report(self) -> None:
        try:
            record = self._record()
            self._processes.report(record)
            self._processes.forget_silent()
        except RedisError as error:
            _log.debug("this process could not be reported to Redis", error=str(error))
            return
        if self._file is not None:
            health_file.write(self._file, record.trouble)

    def end(self) -> None:
        """Ends the thread, and removes the record of the process."""
        super().end()
        self.join(timeout=1.0)
        try:
            self._processes.leave(self._record())
        except RedisError as error:
            _log.debug("the record of this process could not be removed, it expires later", error=str(error))

    def _record(self) -> ProcessRecord:
        trouble = self._trouble() or thread_failures.trouble() or ""
        return ProcessRecord(self._role, f"{socket.gethostname()}:{os.getpid()}", trouble=trouble)


def _field(record: ProcessRecord) -> str:
    return f"{record.role}:{record.name}"


def _is_recent(record: ProcessRecord, now: float) -> bool:
    return abs(now - record.at) < health_file.SILENT_S  # the clock may have been set back since
