"""Whether this process can do its work. Checked at most once a second, however many requests ask."""

import logging
import threading
import time
from pathlib import Path

from anyio import CapacityLimiter, move_on_after
from anyio.to_thread import run_sync
from redis.exceptions import RedisError

from runtime import thread_failures
from sandbox.pool.pool import Pool
from storage.store import Store

LOOK_S = 1.0
LATE_S = 3.0  # a longer check, as of a Redis that hangs, is a problem itself: the probe in compose.yaml waits for 4 s
_MARGIN_S = 0.1  # so that a check which is waited for in vain counts as late
_EMPTIED = (
    "Redis has no API key, so every request gets 401: it was emptied, or is another one. Stop the service and restore "
    "its data; or restart the service, which begins with the first API key alone"
)

_log = logging.getLogger(__name__)


class Readiness:
    """Checks the parts that an API process needs: Redis, the spool, sandboxes and its own threads."""

    def __init__(self, store: Store, pool: Pool, registering_file: Path | None = None) -> None:
        self._store = store
        self._pool = pool
        self._registering_file = registering_file
        self._looking = threading.Lock()
        self._thread = CapacityLimiter(1)  # all others may wait for Redis
        self._began_at = float("inf")
        self._looked_at = float("-inf")
        self._answered_at = float("-inf")  # by Redis
        self._troubles: tuple[str, ...] = ("nothing was checked yet",)

    @property
    def redis_answers(self) -> bool:
        """Whether Redis answered when it was checked last, and is not what makes a check late now."""
        return self._answered_at >= (self._began_at if self._late_s else 0)

    @property
    def is_registering(self) -> bool:
        """Whether `gradebox serve` has models or endpoints that are not registered yet."""
        return self._registering_file is not None and self._registering_file.exists()

    async def in_time(self) -> tuple[str, ...]:
        """Returns what is wrong, as `troubles` does, after some `LATE_S` seconds also if the check takes longer."""
        if not self._is_fresh and not self._looking.locked():
            with move_on_after(LATE_S + _MARGIN_S):
                await run_sync(self.troubles, abandon_on_cancel=True, limiter=self._thread)
        return self._known()

    def troubles(self) -> tuple[str, ...]:
        """Returns what is wrong; empty if all is well. One caller repeats an old check; meanwhile others get the old
        result.
        """
        if not self._is_fresh and self._looking.acquire(blocking=False):
            try:
                self._began_at = time.monotonic()
                self._note(tuple(self._look()))
            finally:
                self._began_at = float("inf")
                self._looking.release()
        return self._known()

    @property
    def _is_fresh(self) -> bool:
        """Whether the last check is less than a second old."""
        return time.monotonic() < self._looked_at + LOOK_S

    @property
    def _late_s(self) -> float:
        """For how many seconds a check that is late has run; 0 if none is late."""
        ran_s = time.monotonic() - self._began_at
        return ran_s if ran_s >= LATE_S else 0

    def _known(self) -> tuple[str, ...]:
        if late_s := self._late_s:
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
            self._answered_at = time.monotonic()
        except RedisError as error:
            self._answered_at = float("-inf")
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
