"""Tells what this process has counted, and how large it is."""

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import structlog
from redis.exceptions import RedisError

from runtime import threads
from sandbox.counts import Counts
from sandbox.pool import Pool
from storage.measures import TELL_S, Process
from storage.store import Store

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_log = structlog.get_logger(__name__)


class Publisher(threading.Thread):
    """A thread of each process of the service. `counts` are those that the pool does not count, `trouble` what keeps
    the process from its work besides the pool.
    """

    def __init__(
        self, role: str, store: Store, pool: Pool, counts: Counts, trouble: Callable[[], str | None] = lambda: None
    ) -> None:
        super().__init__(name="publisher", daemon=True)
        self._role = role
        self._store = store
        self._pool = pool
        self._counts = counts
        self._trouble = trouble
        self._telling = threading.Lock()
        self._ended = threading.Event()

    def run(self) -> None:
        """Tells now and every few seconds until it is ended."""
        while not self._ended.is_set():
            try:
                self.tell()
            except RedisError as error:
                _log.debug("what was counted is told later", error=str(error))
            except Exception:  # noqa: BLE001  # health checks go by what it tells
                _log.exception("what was counted could not be told", next_in_s=TELL_S)
            self._ended.wait(TELL_S)

    def tell(self) -> None:
        """Tells now. Raises RedisError; nothing is lost then."""
        with self._telling:
            taken = self._counts.take() | self._pool.counts.take()
            try:
                self._store.measures.tell(self._process(), taken)
            except RedisError:
                self._counts.put_back(taken)
                raise

    def end(self) -> None:
        """Ends the thread, and tells for the last time."""
        self._ended.set()
        self.join(timeout=1.0)
        try:
            self.tell()
            self._store.measures.leave(self._process())
        except RedisError as error:
            _log.debug("the last counts are not told", error=str(error))

    def _process(self) -> Process:
        name = f"{socket.gethostname()}:{os.getpid()}"
        trouble = self._pool.trouble() or self._trouble() or threads.trouble() or ""
        return Process(self._role, name, _resident_bytes(), self._pool.alive, trouble=trouble)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
