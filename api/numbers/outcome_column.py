"""The outcomes of one grader of a batch, as the program holds them: few bytes each."""

from array import array
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
NO_SCORE = float("nan")


class Error(msgspec.Struct):
    """As much of an error as is counted."""

    kind: str


class Line(msgspec.Struct):
    """As much of an outcome as is looked at."""

    index: int
    grader: str
    score: float | None
    id: str | int | None = None
    error: Error | None = None
    details: dict[str, Any] | None = None


decode = msgspec.json.Decoder(Line).decode


class OutcomeColumn:
    """Outcomes in the order of their threads. A score is NaN where there is none."""

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
        """In the order of the threads."""
        return np.array(self._scores)

    @property
    def indices(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Of the threads, ascending."""
        return np.array(self._indices, dtype=np.int64)


def read(outcomes: Iterable[bytes], grader: str) -> OutcomeColumn:
    """What the lines hold of one grader."""
    column = OutcomeColumn()
    for line in outcomes:
        outcome = decode(line)
        if outcome.grader == grader:
            column.add(outcome)
    return column


def finite(value: float) -> float | None:
    """None where it is no number, or overflowed: JSON has neither."""
    return float(value) if np.isfinite(value) else None


def mean_of(scores: Array) -> float | None:
    """None where there are none, and where it overflows."""
    with np.errstate(all="ignore"):
        return finite(scores.mean()) if len(scores) else None
