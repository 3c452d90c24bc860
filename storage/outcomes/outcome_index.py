"""The index of one grader's outcomes: one file. A page of the table reads some ranges of it.

A separate program creates it with NumPy; here it is read without NumPy.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal

from storage.errors import Conflict, CutOff
from storage.outcomes.graded_chunks import GradedChunks, RowPlace
from storage.outcomes.index_file import HEAD_BYTES, Column, Head, unpack
from storage.spool.file_store import FileRange


class OutcomeIndex:
    """The index of the outcomes of one grader that count at the moment.

    Attributes:
        name: the name of its file among the batch's.
    """

    def __init__(self, graded: GradedChunks) -> None:
        self._spool = graded.files.spool
        self._batch_id = graded.files.batch_id
        self.name = f"{graded.scorer}-{graded.digest}"
        self._older = f"{graded.scorer}-"

    @property
    def is_there(self) -> bool:
        """Whether it exists whole. One that is damaged can be made again."""
        try:
            end = HEAD_BYTES + sum(self.head.lengths.values())
            self._bytes(end - 1, end)
        except (Conflict, FileNotFoundError, CutOff, ValueError):  # the last: it is no index
            return False
        return True

    def remove_older(self) -> None:
        """Removes the indexes of outcomes that no longer count."""
        for name in self._spool.indexes(self._batch_id):
            if name.startswith(self._older) and not name.startswith(self.name):
                self._spool.remove_index(self._batch_id, name)

    @cached_property
    def head(self) -> Head:
        """The header. Raises Conflict if the index was removed."""
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

    def places(self, rows: Sequence[int]) -> list[tuple[RowPlace, RowPlace]]:
        """For each row, the place of the previous row and the place of the row."""
        at = self._starts["places"]
        ranges = [self._range(at + 8 * max(row - 1, 0), at + 8 * (row + 1)) for row in rows]
        found = [_little("I", data) for data in self._spool.files.read_ranges(ranges)]
        return [(RowPlace(one[0], one[1]), RowPlace(one[-2], one[-1])) for one in found]

    def first(self, holds: Callable[[float], bool]) -> int:
        """The first position in score order for which `holds` is true. `holds` must stay true for all higher scores."""
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
        """The number of the bucket that contains a position in score order."""
        return bisect_right(self.head.buckets, position, key=lambda one: one.start) - 1

    def _range(self, start: int, end: int) -> FileRange:
        return self._spool.index_range(self._batch_id, self.name, start, end)

    def _bytes(self, start: int, end: int) -> bytes:
        (data,) = self._spool.files.read_ranges([self._range(start, end)])
        return data


def _little(kind: Literal["I", "d"], data: bytes) -> "array[Any]":
    found = array(kind, data)
    if sys.byteorder == "big":
        found.byteswap()
    return found
