"""Creates the index of one grader's outcomes, from which pages of the table are read."""

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from api.numbers.error_groups import ErrorCounter
from api.numbers.jobs import IndexJob
from api.numbers.outcome_column import NO_SCORE, Array
from storage.outcomes.index_file import FIRST_BUCKET, KINDS, MOST_BUCKETS, Bucket, Head

_QUANTILES = MOST_BUCKETS // 2
_HEAVY = 4 / MOST_BUCKETS  # a value with this share of all scores gets a bucket of its own

Numbers = np.ndarray[Any, np.dtype[np.int64]]


class _Error(msgspec.Struct):
    kind: str
    message: str


class _Line(msgspec.Struct):
    index: int
    score: float | None
    run_ms: float
    error: _Error | None = None


_decode_lines = msgspec.json.Decoder(_Line).decode_lines


def run(job: IndexJob, outcomes: Iterable[bytes], threads: Iterable[bytes]) -> bytes:
    """Returns the index file's content. Raises ValueError if a stream has more or fewer lines than the chunks."""
    scores, run_ms, ends = array("d"), array("d"), []
    kinds: dict[int, str] = {}
    errors = ErrorCounter(job.grader)
    for block in outcomes:
        lines = _decode_lines(block)
        for row, line in enumerate(lines, len(scores)):
            if line.error is not None:
                kinds[row] = line.error.kind
                errors.add(line.index, line.error.kind, line.error.message)
        scores.extend([NO_SCORE if line.score is None else line.score for line in lines])
        run_ms.extend([line.run_ms for line in lines])
        ends.append(_line_ends(block))
    at = _places(ends, job.chunks), _places(map(_line_ends, threads), job.chunks)
    return _file(np.array(scores), np.array(run_ms), kinds, np.stack(at, axis=1), errors.pack())


def _line_ends(block: bytes) -> Numbers:
    """The length of each line of a block of whole lines."""
    return np.diff(np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n")) + 1, prepend=0)


def _places(lengths: Iterable[Numbers], chunks: Sequence[int]) -> Numbers:
    """The end of each line in its chunk."""
    ends = np.cumsum(np.concatenate([np.zeros(0, dtype=np.int64), *lengths]))
    lines = np.array(chunks, dtype=np.int64)
    if len(ends) != lines.sum():
        raise ValueError(f"there are {len(ends)} lines, and chunks of {lines.sum()}")
    first = np.cumsum(lines) - lines
    before = np.concatenate([[0], ends])[first]
    found: Numbers = ends - np.repeat(before, lines)
    return found


def _file(scores: Array, run_ms: Array, kinds: dict[int, str], places: Numbers, errors: bytes) -> bytes:
    rows = len(scores)
    numbers = {name: number for number, name in enumerate(KINDS)}
    classes = np.full(rows, numbers["not_applicable"], dtype=np.uint8)
    for row, kind in kinds.items():
        classes[row] = numbers[kind]
    order = np.argsort(scores, kind="stable")  # NaN sorts last
    scored = rows - int(np.isnan(scores).sum())
    order = order[:scored]
    ascending = scores[order]
    starts = bucket_starts(ascending)
    sizes = np.diff(starts, append=scored)
    classes[order] = FIRST_BUCKET + np.repeat(np.arange(len(starts)), sizes)
    lows, highs = ascending[starts], ascending[starts + sizes - 1]
    buckets = [Bucket(*one) for one in zip(lows.tolist(), highs.tolist(), starts.tolist(), strict=True)]
    head = Head(rows, scored, numbers, buckets, len(errors))
    by_run_ms = np.argsort(run_ms, kind="stable")
    if rows and places.max() >= 1 << 32:
        raise ValueError(f"a chunk of {places.max()} bytes is too long for an index")
    columns = (
        ascending.astype("<f8"),
        order.astype("<u4"),
        by_run_ms.astype("<u4"),
        places.astype("<u4"),
        classes,
        classes[by_run_ms],
    )
    return b"".join([head.pack(), *(column.tobytes() for column in columns), errors])


def bucket_starts(ascending: Array) -> Numbers:
    """The first positions of the buckets of scores. Equal scores share a bucket. If there are few distinct values, each
    has a bucket; else no bucket is large, except one of a single value.
    """
    changes = np.flatnonzero(ascending[1:] != ascending[:-1]) + 1
    distinct: Numbers = np.concatenate([np.zeros(min(len(ascending), 1), dtype=np.int64), changes])
    if len(distinct) <= MOST_BUCKETS:
        return distinct
    at = np.arange(_QUANTILES) * len(ascending) // _QUANTILES
    starts = np.searchsorted(ascending, ascending[at], side="left")
    ends = np.searchsorted(ascending, ascending[at], side="right")
    heavy = ends - starts > _HEAVY * len(ascending)
    found: Numbers = np.unique(np.concatenate([starts, ends[heavy]]))
    return found[found < len(ascending)]
