"""The processes of the service that are there, and what keeps them from their work."""

import os
import socket
import threading
import time
from collections.abc import Callable

import msgspec
import structlog
from redis import Redis
from redis.exceptions import RedisError

from runtime import threads
from storage import names
from storage.batch_plan import Lane

TELL_S = 5.0  # how often a process tells
ROLES: dict[Lane, str] = {"": "worker", "asking": "asking-worker"}
_SILENT_S = 20.0  # a process that said nothing for so long is gone

_log = structlog.get_logger(__name__)


class ProcessRecord(msgspec.Struct, frozen=True):
    """One process, as it told of itself."""

    role: str
    name: str
    """`host:pid`."""
    at: float = 0.0
    trouble: str = ""
    """Why it cannot do its work, where it cannot."""


class Processes:
    """All that told of themselves of late."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    def tell(self, record: ProcessRecord) -> None:
        """Notes that a process is there."""
        told = msgspec.json.encode(msgspec.structs.replace(record, at=time.time()))
        self._redis.hset(names.PROCESSES, _field(record), told)

    def leave(self, record: ProcessRecord) -> None:
        """Notes that a process ends."""
        self._redis.hdel(names.PROCESSES, _field(record))

    def there(self) -> list[ProcessRecord]:
        """The processes that told of themselves of late. It changes nothing."""
        records = [msgspec.json.decode(found, type=ProcessRecord) for found in self._redis.hvals(names.PROCESSES)]
        return [record for record in records if _is_heard(record)]

    def workers(self, lane: Lane = "") -> list[ProcessRecord]:
        """The workers of the lane among them."""
        return [record for record in self.there() if record.role == ROLES[lane]]

    def forget_silent(self) -> None:
        """Removes the records of processes that ended without a word."""
        for name, found in self._redis.hgetall(names.PROCESSES).items():
            if not _is_heard(msgspec.json.decode(found, type=ProcessRecord)):
                self._redis.hdel(names.PROCESSES, name)


class Presence(threading.Thread):
    """A thread of each process of the service: tells every few seconds that the process is there. `trouble` says what
    keeps the process from its work, besides threads of it that have ended.
    """

    def __init__(self, processes: Processes, role: str, trouble: Callable[[], str | None]) -> None:
        super().__init__(name="presence", daemon=True)
        self._processes = processes
        self._role = role
        self._trouble = trouble
        self._ended = threading.Event()

    def run(self) -> None:
        """Tells now and every few seconds until it is ended."""
        while not self._ended.is_set():
            try:
                self._processes.tell(self._record())
                self._processes.forget_silent()
            except RedisError as error:
                _log.debug("Redis could not be told that this process is there", error=str(error))
            except Exception:  # noqa: BLE001  # health checks go by what it tells
                _log.exception("it could not be told that this process is there", next_in_s=TELL_S)
            self._ended.wait(TELL_S)

    def end(self) -> None:
        """Ends the thread, and the process' record."""
        self._ended.set()
        self.join(timeout=1.0)
        try:
            self._processes.leave(self._record())
        except RedisError as error:
            _log.debug("the record of this process stays for a while", error=str(error))

    def _record(self) -> ProcessRecord:
        trouble = self._trouble() or threads.trouble() or ""
        return ProcessRecord(self._role, f"{socket.gethostname()}:{os.getpid()}", trouble=trouble)


def _field(record: ProcessRecord) -> str:
    return f"{record.role}:{record.name}"


def _is_heard(record: ProcessRecord) -> bool:
    return time.time() - record.at < _SILENT_S
