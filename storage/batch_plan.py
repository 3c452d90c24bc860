"""The content of a batch: its graders, its chunks, and the units of work that they form."""

import hashlib
from collections.abc import Sequence
from typing import Literal

import msgspec

from gradebox.schemas import FeedbackOf, Replies, Version
from storage.models.spending import Budget
from storage.spool.chunks import Chunk

Lane = Literal["", "asking"]
"""The workers that score a batch: those of the lane `asking` if one of its graders waits for asks, else those of the
default lane.
"""


class AskTerms(msgspec.Struct, frozen=True, omit_defaults=True):
    """The terms on which the graders of a batch may ask: the budget, and whether stored replies may answer."""

    budget: Budget | None = None
    replies: Replies = "kept"


NO_TERMS = AskTerms()


class Wanted(msgspec.Struct, frozen=True):
    """One grader that scores a batch."""

    key: str
    version: Version
    weight: float | None = None
    """None if no weight was given, which is a weight of 1."""

    @property
    def label(self) -> str:
        """The grader's name in outcomes."""
        return f"{self.key}@{self.version.number}"


class UploadedBatch(msgspec.Struct, frozen=True):
    """A batch whose threads are in the spool."""

    id: str
    project: str
    wanted: Sequence[Wanted]
    chunks: list[Chunk]
    by: str | None = None
    """The id of the API key that creates it."""
    terms: AskTerms = NO_TERMS
    feedback_of: FeedbackOf | None = None
    trace: str = ""
    """The `traceparent` of the request that creates it, if requests are traced."""


def asks_of(wanted: Sequence[Wanted]) -> list[str]:
    """The ask targets that these graders may wait for: distinct, in alphabetical order."""
    return sorted({asked for one in wanted if one.version.waits for asked in one.version.asks})


def lane_of(wanted: Sequence[Wanted]) -> Lane:
    """The lane of a batch with these graders. One grader that asks puts the whole batch in `asking`: the others wait
    for it.
    """
    return "asking" if asks_of(wanted) else ""


def are_weighted(wanted: Sequence[Wanted]) -> bool:
    """Whether these are several graders, any of which was given a weight. Each thread of a batch with them has a
    combined outcome, too.
    """
    return len(wanted) > 1 and any(one.weight is not None for one in wanted)


def line_ms_of(wanted: Sequence[Wanted]) -> float:
    """The time that the slowest of these graders took for a line of its test run. 0.0 if it is not known, or if they
    wait for asks: then a worker scores all lines of a chunk at once.
    """
    if lane_of(wanted) == "asking":
        return 0.0
    return max((one.version.test_run_ms or 0.0 for one in wanted), default=0.0)


class PlannedGrader(msgspec.Struct, frozen=True, omit_defaults=True):
    """One grader of an accepted batch; `source` is the key of its stored version in `redis_keys.SOURCES`."""

    key: str
    version: int
    weight: float
    source: str = ""
    python: str | None = None

    @property
    def label(self) -> str:
        """The grader's name in outcomes."""
        return f"{self.key}@{self.version}"


def scorer_of(wanted: Wanted) -> PlannedGrader:
    """The planned form of a grader. Its version is stored until the batch ends, even if the grader is deleted."""
    version, weight = wanted.version, 1.0 if wanted.weight is None else wanted.weight
    source = hashlib.sha256(version.model_dump_json().encode()).hexdigest()
    return PlannedGrader(wanted.key, version.number, weight, source, version.python)


class Plan(msgspec.Struct, frozen=True):
    """The content of a batch, fixed when it was accepted.

    A unit of work is one chunk for one grader. Units are numbered grader by grader, so that a worker that takes them in
    order keeps its sandbox.
    """

    project: str
    scorers: list[PlannedGrader]
    chunks: list[Chunk]
    trace: str = ""
    """The `traceparent` of the request that created the batch, if requests are traced."""
    terms: AskTerms = NO_TERMS
    weighted: bool = False
    """Whether there are combined outcomes: see `are_weighted`."""

    def unit(self, number: int) -> tuple[int, Chunk]:
        """The grader number and the chunk of a unit."""
        scorer, chunk = divmod(number, len(self.chunks))
        return scorer, self.chunks[chunk]


def counting_of(
    plan: Plan, attempts: Sequence[int], chunk: int, scorer: int | None = None
) -> list[tuple[int, int]] | None:
    """The unit and the attempt that counts of each grader for one chunk, or only of the grader with number `scorer`.
    None if one is not done.
    """
    units = range(chunk, len(plan.chunks) * len(plan.scorers), len(plan.chunks))
    if scorer is not None:
        units = units[scorer : scorer + 1]
    if any(unit >= len(attempts) or not attempts[unit] for unit in units):
        return None
    return [(unit, attempts[unit]) for unit in units]
