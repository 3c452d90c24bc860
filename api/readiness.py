"""Whether this process can do its work. Checked at most once a second, however many requests ask."""

import logging
import threading
import time

from redis.exceptions import RedisError

from runtime import thread_failures
from sandbox.pool.pool import Pool
from storage.store import Store

LOOK_S = 1.0
LATE_S = 10.0  # a check that takes longer, e.g. on a hanging file system, is itself a problem
_EMPTIED = (
    "Redis has no API key, so every request gets 401: it was emptied, or is another one. Stop the service and restore "
    "its data; or restart the service, which begins with the first API key alone"
)

_log = logging.getLogger(__name__)


class Readiness:
    """Checks the parts that an API process needs: Redis, the spool, sandboxes and its own threads."""

    def __init__(self, store: Store, pool: Pool) -> None:
        self._store = store
        self._pool = pool
        self._looking = threading.Lock()
        self._looked_at = float("-inf")
        self._troubles: tuple[str, ...] = ("nothing was checked yet",)

    @property
    def is_fresh(self) -> bool:
        """Whether the last check is less than a second old."""
        return time.monotonic() < self._looked_at + LOOK_S

    def troubles(self) -> tuple[str, ...]:
        """Returns what is wrong; empty if all is well. One caller repeats an old check; meanwhile others get the old
        result.
        """
        if not self.is_fresh and self._looking.acquire(blocking=False):
            try:
                self._note(tuple(self._look()))
            finally:
                self._looking.release()
        late_s = time.monotonic() - self._looked_at
        if LATE_S < late_s < float("inf"):
            return (f"the check that began {late_s:.0f} s ago has not finished", *self._troubles)
        return self._troubles

    def _note(self, found: tuple[str, ...]) -> None:
        if found != self._troubles:
            for trouble in found:
                _log.warning("not ready: %s", trouble)
        self._troubles, self._looked_at = found, time.monotonic()

    def _look(self) -> list[str]:
        found = []
        try:
            if not self._store.api_keys.has_any():
                found.append(_EMPTIED)
        except RedisError as error:
            found.append(f"Redis does not answer: {error}")
        try:
            self._store.spool.check()
        except OSError as error:
            found.append(f"the spool cannot be written: {error}")
        if (sandboxes := self._pool.trouble()) is not None:
            found.append(f"sandboxes cannot be started: {sandboxes}")
        if (ended := thread_failures.trouble()) is not None:
            found.append(ended)
        return found
