"""Selects and orders the outcomes of an index that a page of the table shows."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from gradebox.schemas.outcome_table import KindFilter, Sort
from storage.outcomes.index_file import FIRST_BUCKET
from storage.outcomes.outcome_index import OutcomeIndex
from storage.statistics.summary import bin_of

_STRIDES = (1 << 16, 1 << 10)
_WHOLE, _PART = 1, 2  # values of a mask: the row is selected, or its score has to be checked


class OutcomeFilter(NamedTuple):
    """The wanted outcomes: those that meet all given conditions. `bin` is the number of a bin of the histogram."""

    kind: KindFilter | None = None
    low: float | None = None
    high: float | None = None
    bin: int | None = None

    @property
    def has_range(self) -> bool:
        """Whether scores are bounded. Outcomes without a score are then excluded."""
        return (self.low, self.high, self.bin) != (None, None, None)


class Found(NamedTuple):
    """Some of the matching rows, and the number of all matching rows."""

    rows: list[int]
    total: int


class OutcomeSelection:
    """The outcomes of an index that match a filter."""

    def __init__(self, index: OutcomeIndex, wanted: OutcomeFilter) -> None:
        self._index = index
        self._head = index.head
        self._filter = wanted

    def page(self, sort: Sort, start: int, limit: int, among: AbstractSet[int] | None = None) -> Found:
        """Up to `limit` matching rows from number `start` on, in this order. With `among`, only these rows are
        considered.
        """
        backwards = sort.startswith("-")
        if among is not None:
            rows = self._among(sort.removeprefix("-"), backwards, among)
            return Found(rows[start : start + limit], len(rows))
        if sort.endswith("score"):
            return self._by_score(start, limit, backwards)
        return self._by_column(sort.endswith("run_ms"), start, limit, backwards)

    def _by_score(self, start: int, limit: int, backwards: bool) -> Found:
        """Rows in score order. Those without a score come last, in row order."""
        low, high = self._positions
        scored = high - low
        first, end = min(start, scored), min(start + limit, scored)
        if backwards:
            rows = list(reversed(self._index.numbers("by_score", high - end, high - first)))
        else:
            rows = list(self._index.numbers("by_score", low + first, low + end))
        if not self._unscored:
            return Found(rows, scored)
        mask = self._index.column("classes").translate(_table(self._unscored, ()))
        rows += ones(mask, max(start - scored, 0), limit - len(rows))
        return Found(rows, scored + mask.count(_WHOLE))

    def _by_column(self, by_run_ms: bool, start: int, limit: int, backwards: bool) -> Found:
        mask = self._run_mask if by_run_ms else self._mask
        total = mask.count(_WHOLE)
        first, end = min(start, total), min(start + limit, total)
        if backwards:
            first, end = total - end, total - first
        found = ones(mask, first, end - first)
        if by_run_ms and found:
            span = self._index.numbers("by_run_ms", found[0], found[-1] + 1)
            found = [span[at - found[0]] for at in found]
        return Found(found[::-1] if backwards else found, total)

    def _among(self, order: str, backwards: bool, among: AbstractSet[int]) -> list[int]:
        mask = self._mask
        rows = [row for row in sorted(among) if mask[row] == _WHOLE]
        if order == "index":
            return rows[::-1] if backwards else rows
        some = set(rows)
        column = self._index.numbers("by_score" if order == "score" else "by_run_ms")
        ordered = [row for row in column if row in some]
        if backwards:
            ordered.reverse()
        if order == "score":
            some.difference_update(ordered)
            ordered += sorted(some)
        return ordered

    @cached_property
    def _positions(self) -> tuple[int, int]:
        """The wanted range of positions in score order."""
        wanted, index = self._filter, self._index
        if wanted.kind not in (None, "scored"):
            return 0, 0
        low, high = 0, self._head.scored
        if (least := wanted.low) is not None:
            low = index.first(lambda score: score >= least)
        if (most := wanted.high) is not None:
            high = min(high, index.first(lambda score: score > most))
        if (number := wanted.bin) is not None and self._head.buckets:
            ends = self._head.buckets[0].low, self._head.buckets[-1].high
            low = max(low, index.first(lambda score: bin_of(score, *ends) >= number))
            high = min(high, index.first(lambda score: bin_of(score, *ends) > number))
        return low, max(low, high)

    @cached_property
    def _unscored(self) -> list[int]:
        """The wanted classes of outcomes without a score."""
        kinds, kind = self._head.kinds, self._filter.kind
        if self._filter.has_range or kind == "scored":
            return []
        if kind == "error":
            return [number for name, number in kinds.items() if name != "not_applicable"]
        return [number for name, number in kinds.items() if kind in (None, name)]

    @cached_property
    def _buckets(self) -> tuple[list[int], list[tuple[int, int, int]]]:
        """The classes of buckets that are wanted whole, and those wanted in part with the wanted positions."""
        low, high = self._positions
        whole: list[int] = []
        partly: list[tuple[int, int, int]] = []
        if low < high:
            starts = [*(one.start for one in self._head.buckets), self._head.scored]
            for number in range(self._index.bucket_at(low), self._index.bucket_at(high - 1) + 1):
                start, end = starts[number], starts[number + 1]
                if low <= start and end <= high:
                    whole.append(FIRST_BUCKET + number)
                else:
                    partly.append((FIRST_BUCKET + number, max(low, start), min(high, end)))
        return whole, partly

    @cached_property
    def _table(self) -> bytes:
        whole, partly = self._buckets
        return _table([*self._unscored, *whole], [one for one, _, _ in partly])

    @cached_property
    def _partly(self) -> set[int]:
        """The wanted rows of the buckets that are wanted in part."""
        found: set[int] = set()
        for _, low, high in self._buckets[1]:
            found.update(self._index.numbers("by_score", low, high))
        return found

    @cached_property
    def _mask(self) -> bytearray:
        """One byte for each row: whether it is wanted."""
        mask = bytearray(self._index.column("classes").translate(self._table))
        for row in self._partly:
            mask[row] = _WHOLE
        return mask

    @property
    def _run_mask(self) -> bytearray:
        """The mask in the order of run_ms."""
        mask = bytearray(self._index.column("run_classes").translate(self._table))
        if some := self._partly:
            for start in range(0, len(mask), _STRIDES[0]):
                rows = self._index.numbers("by_run_ms", start, min(start + _STRIDES[0], len(mask)))
                for at in _found(mask, _PART, start, start + len(rows)):
                    if rows[at - start] in some:
                        mask[at] = _WHOLE
        return mask


def _table(whole: Sequence[int], partly: Sequence[int]) -> bytes:
    """The translation table from classes to mask values."""
    table = bytearray(256)
    for number in whole:
        table[number] = _WHOLE
    for number in partly:
        table[number] = _PART
    return bytes(table)


def ones(mask: bytes | bytearray, start: int, count: int) -> list[int]:
    """The positions of `count` ones in a mask, from the one with number `start` on. It skips ahead by counting, which
    is fast.
    """
    at = 0
    for stride in _STRIDES:
        while at < len(mask) and (some := mask.count(_WHOLE, at, at + stride)) <= start:
            start -= some
            at += stride
    return list(islice(_found(mask, _WHOLE, at, len(mask)), start, start + max(count, 0)))


def _found(mask: bytes | bytearray, value: int, at: int, end: int) -> Iterator[int]:
    at = mask.find(value, at, end)
    while at >= 0:
        yield at
        at = mask.find(value, at + 1, end)
