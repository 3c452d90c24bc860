"""What a batch consists of: the graders that score it, its chunks, and the units of work that they make."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from gradebox.schemas import Version
from storage.chunks import Chunk
from storage.spending import Budget

Lane = Literal["", "asking"]
"""Which workers score a batch: those of the lane `asking` where a grader of it waits for what it
asks, else those of the other.
"""


class AskTerms(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the graders of a batch may ask: within which budget, and whether kept replies answer them."""

    budget: Budget | None = None
    keep_replies: bool = True


NO_TERMS = AskTerms()


class Wanted(msgspec.Struct, frozen=True):
    """One grader that a batch is scored by."""

    key: str
    version: Version
    weight: float = 1.0

    @property
    def label(self) -> str:
        """How outcomes name it."""
        return f"{self.key}@{self.version.number}"


def asks_of(wanted: Sequence[Wanted]) -> list[str]:
    """What these graders ask and may wait for, each once, in order of the alphabet."""
    return sorted({asked for one in wanted if one.version.waits for asked in one.version.asks})


def lane_of(wanted: Sequence[Wanted]) -> Lane:
    """The lane of a batch that these graders score: with one that asks, the others wait for it."""
    return "asking" if asks_of(wanted) else ""


def takes_groups(wanted: Sequence[Wanted]) -> bool:
    """Whether a line of a batch that these graders score is a group."""
    return any(one.version.groups for one in wanted)


class PlannedGrader(msgspec.Struct, frozen=True, omit_defaults=True):
    """One grader of an accepted batch; `source` names what it scores with among the sources that are held."""

    key: str
    version: int
    weight: float
    source: str = ""

    @property
    def label(self) -> str:
        """How outcomes name it."""
        return f"{self.key}@{self.version}"


class Plan(msgspec.Struct, frozen=True):
    """What a batch consists of, settled when it was accepted.

    A unit of work is one chunk for one grader. Units are numbered grader by grader, so that a worker that takes
    them in order keeps its sandbox.
    """

    project: str
    scorers: list[PlannedGrader]
    chunks: list[Chunk]
    trace: str = ""
    """The `traceparent` of the request that made it, where requests are traced."""
    terms: AskTerms = NO_TERMS

    def unit(self, number: int) -> tuple[int, Chunk]:
        """The number of the grader, and the chunk, of one unit."""
        scorer, chunk = divmod(number, len(self.chunks))
        return scorer, self.chunks[chunk]
