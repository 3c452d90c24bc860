"""The index of one grader's outcomes: one file, of which a page of the table reads some ranges.

It is made by a program of its own, which has NumPy; here it is read without. After a head come columns of
little-endian numbers, with `rows` entries each unless they say otherwise:

    scores      f8, the scores from the lowest to the highest: `scored` entries
    by_score    u4, the rows in that order: `scored` entries
    by_run_ms   u4, the rows from the shortest run to the longest
    places      u4 twice: where the lines of outcome and thread end in their chunk
    classes     u1, the class of each row: a kind of what has no score, or a bucket of scores
    run_classes u1, the same in the order of `by_run_ms`
    errors      bytes: the groups of errors, as they are answered

So a filter is a search for bytes, and a range of scores is some whole buckets and at most two in part.
"""

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from gradebox.outcome import ErrorKind
from storage.errors import Conflict
from storage.graded_chunks import GradedChunks, Place
from storage.spool import FileRange, Spool

MAGIC = b"gbindex1"
HEAD_BYTES = 16 * 1024
KINDS = ("not_applicable", *get_args(ErrorKind))
FIRST_BUCKET = 32
MOST_BUCKETS = 256 - FIRST_BUCKET
_LENGTH = struct.Struct("<8sI")

Column: TypeAlias = Literal["scores", "by_score", "by_run_ms", "places", "classes", "run_classes", "errors"]


class Bucket(msgspec.Struct, array_like=True):
    """Scores from `low` to `high`, both of which occur; `start` is the position of the first in the order."""

    low: float
    high: float
    start: int


class Head(msgspec.Struct):
    """What an index holds.

    Attributes:
        kinds: the class of each kind of what has no score.
        buckets: from the lowest; their classes count on from `FIRST_BUCKET`.
        error_bytes: the length of the column `errors`.
    """

    rows: int
    scored: int
    kinds: dict[str, int]
    buckets: list[Bucket]
    error_bytes: int

    @property
    def lengths(self) -> dict[Column, int]:
        """The bytes of each column, in their order in the file."""
        rows, scored = self.rows, self.scored
        return {
            "scores": 8 * scored,
            "by_score": 4 * scored,
            "by_run_ms": 4 * rows,
            "places": 8 * rows,
            "classes": rows,
            "run_classes": rows,
            "errors": self.error_bytes,
        }

    def pack(self) -> bytes:
        """The head as it stands in the file."""
        packed = msgspec.msgpack.encode(self)
        return (_LENGTH.pack(MAGIC, len(packed)) + packed).ljust(HEAD_BYTES, b"\0")


def unpack(data: bytes) -> Head:
    """What `Head.pack` gave. Raises ValueError where it is none."""
    magic, length = _LENGTH.unpack_from(data)
    if magic != MAGIC:
        raise ValueError(f"an index begins with {magic!r}, and not with {MAGIC!r}")
    return msgspec.msgpack.decode(data[_LENGTH.size : _LENGTH.size + length], type=Head)


class OutcomeIndex:
    """The index of what is counted at the moment of one grader's outcomes."""

    def __init__(self, spool: Spool, batch_id: str, graded: GradedChunks) -> None:
        self._spool = spool
        self._batch_id = batch_id
        self._name = f"{graded.scorer}-{graded.digest}"
        self._older = f"{graded.scorer}-"

    @property
    def is_there(self) -> bool:
        """Whether it was made."""
        return self._spool.has_index(self._batch_id, self._name)

    def remove_older(self) -> None:
        """Forgets the indexes of outcomes that count no more."""
        for name in self._spool.indexes(self._batch_id):
            if name.startswith(self._older) and not name.startswith(self._name):
                self._spool.remove_index(self._batch_id, name)

    @property
    def name(self) -> str:
        """That of its file among the batch's."""
        return self._name

    @cached_property
    def head(self) -> Head:
        """What it holds."""
        try:
            return unpack(self._bytes(0, HEAD_BYTES))
        except FileNotFoundError as error:
            raise Conflict(
                f"outcomes of batch {self._batch_id} were scored again, or it was deleted: ask again"
            ) from error

    @cached_property
    def _starts(self) -> dict[Column, int]:
        lengths = self.head.lengths
        return dict(zip(lengths, accumulate(lengths.values(), initial=HEAD_BYTES), strict=False))

    def column(self, column: Column, start: int = 0, end: int | None = None) -> bytes:
        """A column, or its bytes from `start` up to `end`."""
        end = self.head.lengths[column] if end is None else end
        at = self._starts[column]
        return self._bytes(at + start, at + end)

    def numbers(self, column: Column, start: int = 0, end: int | None = None) -> "array[int]":
        """The entries of a column of u4, or those from `start` up to `end`."""
        return _little("I", self.column(column, 4 * start, None if end is None else 4 * end))

    def places(self, rows: Sequence[int]) -> list[tuple[Place, Place]]:
        """For each row the place of the row before, and its own."""
        at = self._starts["places"]
        ranges = [self._range(at + 8 * max(row - 1, 0), at + 8 * (row + 1)) for row in rows]
        found = [_little("I", data) for data in self._spool.read_ranges(ranges)]
        return [(Place(one[0], one[1]), Place(one[-2], one[-1])) for one in found]

    def first(self, holds: Callable[[float], bool]) -> int:
        """The position in the order of scores of the first of which something holds that holds of all behind it."""
        buckets = self.head.buckets
        number = bisect_left(buckets, True, key=lambda one: holds(one.high))
        if number == len(buckets):
            return self.head.scored
        bucket = buckets[number]
        if holds(bucket.low):
            return bucket.start
        end = buckets[number + 1].start if number + 1 < len(buckets) else self.head.scored
        scores = _little("d", self.column("scores", 8 * bucket.start, 8 * end))
        return bucket.start + bisect_left(scores, True, key=holds)

    def bucket_at(self, position: int) -> int:
        """The number of the bucket that holds a position in the order of scores."""
        return bisect_right(self.head.buckets, position, key=lambda one: one.start) - 1

    def _range(self, start: int, end: int) -> FileRange:
        return self._spool.index_range(self._batch_id, self._name, start, end)

    def _bytes(self, start: int, end: int) -> bytes:
        (data,) = self._spool.read_ranges([self._range(start, end)])
        return data


def _little(kind: Literal["I", "d"], data: bytes) -> "array[Any]":
    found = array(kind, data)
    if sys.byteorder == "big":
        found.byteswap()
    return found
