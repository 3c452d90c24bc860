"""The units that a worker takes, one after the other."""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from time import monotonic
from types import TracebackType
from typing import Self

from storage.leases import Lease
from worker.patience import patiently
from worker.runtime import Runtime

_STOP_S = 0.25  # after which a worker that waits sees that it is to stop


class Claims:
    """Asks for units, and for the next ones ahead where that is told: the answer has to reach Redis' disk first."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._executor = ThreadPoolExecutor(1, "claims")
        self._claimed: deque[Lease] = deque()
        self._ahead: Future[list[Lease]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.let_go()
        finally:
            self._executor.shutdown()
            self._runtime.heartbeat.leases.clear()  # what could not be given back comes back when its lease runs out

    def next(self) -> Lease | None:
        """A unit, or None where none waits."""
        if not self._claimed:
            ahead, self._ahead = self._ahead, None
            self._claimed += self._claim(1) if ahead is None else ahead.result()
        return self._claimed.popleft() if self._claimed else None

    def look_ahead(self, most: int) -> None:
        """Asks for what `next` will return when it has returned what is here: at most so many."""
        if not self._claimed and self._ahead is None:
            self._ahead = self._executor.submit(self._claim, most)

    def called(self, wait_s: float) -> bool:
        """Whether there is another call for a worker within so many seconds; it is answered then."""
        ends = monotonic() + wait_s
        while not self._runtime.stopping.is_set() and (left := ends - monotonic()) > 0:
            job = patiently(self._runtime, partial(self._runtime.dispatch.answer, min(left, _STOP_S)))
            if job is not None:
                self._executor.submit(self._runtime.dispatch.forget, job)
                return True
        return False

    def let_go(self) -> None:
        """Gives back what was asked for ahead: the unit at hand takes long, and others may have time."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            self._claimed += ahead.result()
        while self._claimed:
            self.give_back(self._claimed.pop(), tried=False)

    def give_back(self, lease: Lease, *, tried: bool) -> None:
        """A unit that is not scored: another worker may take it."""
        patiently(self._runtime, lambda: self._runtime.store.leases.release(lease, tried=tried))
        self._runtime.heartbeat.leases.discard(lease)

    def _claim(self, most: int) -> list[Lease]:
        leases = patiently(self._runtime, lambda: self._runtime.store.leases.claim_some(most))
        self._runtime.heartbeat.leases.update(leases)
        return leases
