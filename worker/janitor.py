"""The thread of a worker process in which its janitor looks around."""

import threading

import structlog
from redis.exceptions import RedisError

from storage.janitor import Janitor

ROUND_S = 5.0

_log = structlog.get_logger(__name__)


class JanitorThread(threading.Thread):
    """Apart from the heartbeat, which must not wait for files to be removed."""

    def __init__(self, janitor: Janitor, round_s: float = ROUND_S) -> None:
        super().__init__(name="janitor", daemon=True)
        self._janitor = janitor
        self._round_s = round_s
        self._ended = threading.Event()

    def run(self) -> None:
        """Looks until it is ended."""
        while not self._ended.wait(self._round_s):
            try:
                self._janitor.look()
            except (RedisError, OSError) as error:
                _log.warning("the janitor was interrupted", goes_on_in_s=self._round_s, error=str(error))
            except Exception:  # noqa: BLE001  # else nothing is tidied any more
                _log.exception("the janitor was interrupted", goes_on_in_s=self._round_s)

    def end(self) -> None:
        """Ends the thread after the round at hand, which may take a while and can be broken off."""
        self._ended.set()
