"""The thread of a worker process that runs its janitor."""

import threading

import structlog
from redis.exceptions import RedisError

from storage.janitor import Janitor

ROUND_S = 5.0

_log = structlog.get_logger(__name__)


class JanitorThread(threading.Thread):
    """Runs the janitor periodically. Separate from the heartbeat, which must not wait until files are removed."""

    def __init__(self, janitor: Janitor) -> None:
        super().__init__(name="janitor", daemon=True)
        self._janitor = janitor
        self._ended = threading.Event()

    def run(self) -> None:
        """Runs a round every few seconds until `end` is called."""
        while not self._ended.wait(ROUND_S):
            try:
                self._janitor.look()
            except (RedisError, OSError) as error:
                _log.warning("the janitor was interrupted", goes_on_in_s=ROUND_S, error=str(error))
            except Exception:  # noqa: BLE001  # else the cleanup stops for good
                _log.exception("the janitor was interrupted", goes_on_in_s=ROUND_S)

    def end(self) -> None:
        """Ends the thread after the current round. Does not wait: a round may be long, and may be interrupted."""
        self._ended.set()
