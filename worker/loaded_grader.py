"""The state that a worker keeps between units: the plans of batches, and the sandbox with a loaded grader."""

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Self

from gradebox.schemas import Version
from models.asks.asker import Asker
from models.scoring.asking_scorer import AskingScorer
from models.scoring.scoring import ask_context, combined_scorer
from sandbox.grader_source import GraderSource
from sandbox.grading.five_checks import Scorer
from sandbox.grading.grading import Grading
from sandbox.grading.slice_size import SliceSize
from sandbox.limits import FEEDBACK_LINE_DEPTH
from sandbox.pool.pool import Pool
from storage.batch_plan import Plan, PlannedGrader
from storage.batches.feedback_grader import is_feedback
from storage.queue.leases import Lease
from storage.store import Store

_PLANS = 64
_ROOM_S = 1.0
_PLACE_S = 1.0  # wait for a sandbox's place, which the worker's other loop may hold for as long as its batch lasts


@dataclass(frozen=True)
class LoadedGrader:
    """A grader in a sandbox, with the state that one batch left in it. A grader that asks gets a sandbox per step."""

    batch: str
    source: str
    grading: Scorer
    asks: bool = False
    slice_size: SliceSize = field(default_factory=SliceSize)


class GraderCache:
    """Keeps the sandbox of the last unit open, because the next unit usually has the same batch and grader."""

    def __init__(self, store: Store, pool: Pool, asker: Asker | None = None) -> None:
        self._store = store
        self._pool = pool
        self._asker = asker
        self._plans: dict[str, Plan] = {}
        self._room = ("", 0.0)  # a project that had room, and until when that counts
        self._loaded: LoadedGrader | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unload()

    def plan(self, batch_id: str) -> Plan | None:
        """The plan of the batch, or None if the batch does not exist any more."""
        if batch_id not in self._plans:
            plan = self._store.batches.plan(batch_id)
            if plan is None or not all(scorer.source for scorer in plan.scorers):
                return plan  # not cached: the batch has ended, and its plan has sources again after a retry
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            self._plans[batch_id] = plan
        return self._plans[batch_id]

    def has_room(self, project: str) -> bool:
        """Whether the project is within its spool quota, now or a second ago: a unit of a fast grader takes a few
        milliseconds, and Redis answers only between its waits for the disk.
        """
        had_room, until = self._room
        if project == had_room and monotonic() < until:
            return True
        if not self._store.backlog.has_room(project):
            return False
        self._room = project, monotonic() + _ROOM_S
        return True

    def load(self, lease: Lease, scorer: PlannedGrader) -> LoadedGrader | None:
        """The grader, which takes a sandbox when it first scores. None if its batch has ended or its plan is old."""
        loaded = self._loaded
        if loaded is not None and (loaded.batch, loaded.source) == (lease.batch, scorer.source):
            return loaded
        self.unload()
        plan = self.plan(lease.batch)
        version = self._store.batches.source(scorer)
        if plan is None or version is None:
            self._plans.pop(lease.batch, None)  # a retry may have given the batch another source since
            return None
        grading = self._scorer(plan, lease.batch, scorer, version)
        self._loaded = LoadedGrader(lease.batch, scorer.source, grading, bool(version.asks))
        return self._loaded

    def _scorer(self, plan: Plan, batch: str, scorer: PlannedGrader, version: Version) -> Scorer:
        if (combined := combined_scorer(self._store, self._pool, plan.project, version)) is not None:
            return combined
        source = GraderSource.of_version(plan.project, version)
        if is_feedback(scorer.key):
            source = replace(source, line_depth=FEEDBACK_LINE_DEPTH)
        if version.asks and self._asker is not None:
            lend = partial(self._pool.grading, source)
            asking = ask_context(plan.project, scorer.key, version, batch)
            number = plan.scorers.index(scorer)
            asking = asking._replace(number=number, budget=plan.terms.budget, keep=plan.terms.replies == "kept")
            return AskingScorer(lend, self._asker, asking)
        return self._open.enter_context(self._pool.grading(source, _PLACE_S))

    @property
    def loading(self) -> tuple[float, float]:
        """When loading the grader began and ended, by the monotonic clock; zeros if it has no sandbox of its own."""
        grading = self._loaded and self._loaded.grading
        return (isinstance(grading, Grading) and grading.loading) or (0.0, 0.0)

    def unload(self) -> None:
        """Returns the sandbox to the pool."""
        self._loaded = None
        self._open.close()
