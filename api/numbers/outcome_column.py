"""The outcomes of one grader of a batch, stored in few bytes each."""

from array import array
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from api.numbers.jobs import Side

Array = np.ndarray[Any, np.dtype[np.float64]]
NO_SCORE = float("nan")


class Error(msgspec.Struct):
    """The field of an error that is counted."""

    kind: str


class Line(msgspec.Struct):
    """The fields of an outcome that are used."""

    index: int
    grader: str
    score: float | None
    id: str | int | None = None
    error: Error | None = None


_decode = msgspec.json.Decoder(Line).decode


class OutcomeColumn:
    """Outcomes in the order of their threads. A missing score is NaN."""

    def __init__(self) -> None:
        self._scores = array("d")
        self._indices = array("q")
        self.ids: list[str | int | None] = []
        self.errors: Counter[str] = Counter()

    def add(self, line: Line) -> None:
        """Adds the outcome of a later thread."""
        self._scores.append(NO_SCORE if line.score is None else line.score)
        self._indices.append(line.index)
        self.ids.append(line.id)
        if line.error is not None:
            self.errors[line.error.kind] += 1

    @property
    def scores(self) -> Array:
        """The scores in the order of the threads."""
        return np.array(self._scores)

    @property
    def indices(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The indices of the threads, ascending."""
        return np.array(self._indices, dtype=np.int64)


def read(outcomes: Iterable[bytes], grader: str) -> OutcomeColumn:
    """Reads the outcomes of one grader from lines."""
    column = OutcomeColumn()
    for line in outcomes:
        outcome = _decode(line)
        if outcome.grader == grader:
            column.add(outcome)
    return column


def why_no_rows(side: Side) -> str:
    """Why a side has no rows."""
    return (
        f"batch {side.batch} has no rows of {side.grader}: of a cancelled batch, threads that some grader has not "
        "scored do not count"
    )


def finite(value: float) -> float | None:
    """None if the value is NaN or infinite, which JSON cannot represent."""
    return float(value) if np.isfinite(value) else None


def mean_of(scores: Array) -> float | None:
    """The mean; None if there are no scores, and if it overflows."""
    with np.errstate(all="ignore"):
        return finite(scores.mean()) if len(scores) else None
