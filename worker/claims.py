"""The units that a worker takes, one after the other."""

from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from storage.leases import Lease
from worker.patience import patiently
from worker.runtime import Runtime


class Claims:
    """Asks for units, and for the next one ahead where that is told: its answer has to reach Redis' disk first."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._executor = ThreadPoolExecutor(1, "claims")
        self._ahead: Future[Lease | None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        ahead, self._ahead = self._ahead, None
        try:
            if ahead is not None and (lease := ahead.result()) is not None:
                self.give_back(lease, tried=False)
        finally:
            self._executor.shutdown()
            self._runtime.heartbeat.leases.clear()  # what could not be given back comes back when its lease runs out

    def next(self) -> Lease | None:
        """A unit, or None where none waits."""
        ahead, self._ahead = self._ahead, None
        return self._claim() if ahead is None else ahead.result()

    def look_ahead(self) -> None:
        """Asks for what `next` will return."""
        if self._ahead is None:
            self._ahead = self._executor.submit(self._claim)

    def give_back(self, lease: Lease, *, tried: bool) -> None:
        """A unit that is not scored: another worker may take it."""
        patiently(self._runtime, lambda: self._runtime.store.leases.release(lease, tried=tried))
        self._runtime.heartbeat.leases.discard(lease)

    def _claim(self) -> Lease | None:
        lease = patiently(self._runtime, self._runtime.store.leases.claim)
        if lease is not None:
            self._runtime.heartbeat.leases.add(lease)
        return lease
