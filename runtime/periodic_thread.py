"""Threads that do something every few seconds for as long as their process works."""

import threading
from collections.abc import Callable

import structlog
from redis.exceptions import RedisError

_log = structlog.get_logger(__name__)


class PeriodicThread(threading.Thread):
    """Calls `work` at once and then every few seconds, until `end` is called. No exception ends it: it is logged, and
    the next call may succeed.
    """

    def __init__(self, name: str, work: Callable[[], object], pause_s: float) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._pause_s = pause_s
        self._ended = threading.Event()

    def run(self) -> None:
        """Works until `end` is called."""
        while not self._ended.is_set():
            try:
                self._work()
            except (RedisError, OSError) as error:
                _log.warning("a thread was interrupted", thread=self.name, again_in_s=self._pause_s, error=str(error))
            except Exception:  # noqa: BLE001  # the service depends on the next calls
                _log.exception("a thread was interrupted", thread=self.name, again_in_s=self._pause_s)
            self._ended.wait(self._pause_s)

    def end(self) -> None:
        """Ends the thread after the current call. Does not wait for it."""
        self._ended.set()
