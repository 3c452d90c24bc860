"""Makes outcomes count: in the spool first, then in Redis."""

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from types import TracebackType
from typing import Self

import structlog

from storage.leases import Completed
from storage.spool import is_full
from worker.claims import Claims
from worker.journal import tell_chunk, tell_finished
from worker.patience import patiently
from worker.runtime import Runtime
from worker.unit import Scored

_MOST = 16  # units that wait to be written; their outcomes are in memory
_GATHER_S = 0.06  # a wait for the disk costs CPU too: units that take a few milliseconds are written together
_PAUSE_S = 2.0

_log = structlog.get_logger(__name__)


class Settler:
    """Writes while the next unit is graded: it waits for the disk, and what has come meanwhile is written together."""

    def __init__(self, runtime: Runtime, claims: Claims) -> None:
        self._runtime = runtime
        self._claims = claims
        self._executor = ThreadPoolExecutor(1, "settler")
        self._scored: deque[Scored] = deque()
        self._settling: deque[Future[None]] = deque()
        self._settled_early = 0
        self._flushing = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.flush()
        finally:
            self._executor.shutdown()

    def add(self, scored: Scored) -> None:
        """Takes what is to be written; waits where much else is."""
        self._scored.append(scored)
        self._settling.append(self._executor.submit(self._settle_all))
        self._await(_MOST)

    def flush(self) -> None:
        """Returns when all counts that was added."""
        self._flushing.set()
        self._await(0)
        self._flushing.clear()

    def _await(self, most: int) -> None:
        while len(self._settling) > most:
            self._settling.popleft().result()

    def _settle_all(self) -> None:
        """Called for each unit that was added: settles it and all that come soon, unless that is done already."""
        if self._settled_early:
            self._settled_early -= 1
            return
        self._flushing.wait(_GATHER_S)
        scored = [self._scored.popleft() for _ in range(len(self._scored))]
        self._settled_early = len(scored) - 1
        for batch, units in groupby(scored, key=lambda one: one.lease.batch):
            self._settle(batch, list(units))

    def _settle(self, batch: str, units: Sequence[Scored]) -> None:
        files = {(one.lease.unit, one.lease.attempt): one.lines for one in units}
        stopping = self._runtime.stopping
        while (error := self._failure(batch, files)) is not None:
            _log.warning("outcomes cannot be written", batch=batch, again_in_s=_PAUSE_S, error=str(error))
            if stopping.wait(_PAUSE_S) or not is_full(error):
                for one in units:
                    self._claims.give_back(one.lease, tried=not stopping.is_set())
                return
        self._count(units)

    def _failure(self, batch: str, files: Mapping[tuple[int, int], bytes]) -> OSError | None:
        """Writes the outcomes. A disk that is full is waited for: nothing that was scored is to be scored again."""
        try:
            self._runtime.store.spool.write_outcomes(batch, files)
        except OSError as error:
            return error
        return None

    def _count(self, units: Sequence[Scored]) -> None:
        """Once however often it is asked; of all attempts' files the one that counts stays."""
        store = self._runtime.store
        told = [(one.lease, one.grader_number, one.counted) for one in units]
        completed = patiently(self._runtime, lambda: store.leases.complete_all(told))
        for one, counts in zip(units, completed, strict=True):
            lease = one.lease
            for attempt in range(1, lease.attempt) if counts else (lease.attempt,):
                store.spool.remove_outcomes(lease.batch, lease.unit, attempt)
            self._runtime.heartbeat.leases.discard(lease)
            tell_chunk(self._runtime.counts, one, counts)
        if Completed.FINISHED in completed:
            tell_finished(store, self._runtime.counts, units[0].lease.batch)
