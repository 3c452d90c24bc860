"""What one worker has at hand: the plans of the batches it works on, and the grader that is loaded."""

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from sandbox.grader_source import GraderSource
from sandbox.pool import Grading, Pool
from storage.batches import Plan, Scorer
from storage.store import Store

_PLANS = 64


class Bench:
    """Keeps the sandbox of the last grader open, because the next unit is most often for the same one."""

    def __init__(self, store: Store, pool: Pool) -> None:
        self._store = store
        self._pool = pool
        self._plans: dict[str, Plan] = {}
        self._loaded: tuple[str, Grading] | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.put_away()

    def plan(self, batch_id: str) -> Plan | None:
        """What the batch consists of, or None where it is gone."""
        if batch_id not in self._plans:
            plan = self._store.batches.plan(batch_id)
            if plan is None:
                return None
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            self._plans[batch_id] = plan
        return self._plans[batch_id]

    def grading(self, scorer: Scorer) -> Grading | None:
        """A sandbox with this grader loaded, or None where its batch is over.

        Raises:
            InfrastructureError: no sandbox could be had.
        """
        if self._loaded is not None and self._loaded[0] == scorer.source:
            return self._loaded[1]
        self.put_away()
        version = self._store.batches.source(scorer)
        if version is None:
            return None
        source = GraderSource(version.source, version.isolation, version.timeout_s, version.memory_mb)
        grading = self._open.enter_context(self._pool.grading(source))
        self._loaded = scorer.source, grading
        return grading

    def put_away(self) -> None:
        """Gives the sandbox back to the pool."""
        self._loaded = None
        self._open.close()
