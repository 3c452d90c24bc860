"""The outcomes of one grader of a batch, stored in few bytes each."""

from array import array
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

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


class OutcomeColumn(NamedTuple):
    """Outcomes in the order of their threads. A missing score is NaN."""

    scores: Array
    indices: np.ndarray[Any, np.dtype[np.int64]]
    """Of the threads, ascending."""
    ids: list[str | int | None]
    errors: Counter[str]
    """Number of errors by kind."""


def read(outcomes: Iterable[bytes], grader: str) -> OutcomeColumn:
    """Reads the outcomes of one grader from lines."""
    scores, indices = array("d"), array("q")
    ids: list[str | int | None] = []
    errors: Counter[str] = Counter()
    for line in outcomes:
        outcome = _decode(line)
        if outcome.grader != grader:
            continue
        scores.append(NO_SCORE if outcome.score is None else outcome.score)
        indices.append(outcome.index)
        ids.append(outcome.id)
        if outcome.error is not None:
            errors[outcome.error.kind] += 1
    return OutcomeColumn(np.array(scores), np.array(indices, dtype=np.int64), ids, errors)


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
