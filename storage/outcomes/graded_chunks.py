"""The chunks of a batch that one grader has scored. Their outcomes, chunk by chunk, are the rows of its table. Combined
outcomes have a table, too: that of the chunks that all graders have scored.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby, islice
from typing import NamedTuple

import msgspec

from storage.batch_plan import counting_of
from storage.batches.batch_threads import with_end
from storage.outcomes.combined_outcomes import combining_of
from storage.outcomes.outcome_files import OutcomeFiles
from storage.spool.blocks import BLOCK_BYTES, joined
from storage.spool.chunks import Chunk
from storage.spool.file_store import FileRange


class GradedChunk(NamedTuple):
    """A chunk with outcomes that count."""

    chunk: Chunk
    counting: list[tuple[int, int]]
    """The unit and the attempt that counts; for combined outcomes, of each grader."""
    first_row: int


class RowPlace(NamedTuple):
    """The ends of one row's lines in their chunk: its outcome in the file of the unit, its thread in the payload.

    They begin where those of the previous row end.
    """

    outcome_end: int
    thread_end: int


class GradedChunks:
    """The scored chunks of one grader, given by its number in the batch, or of all graders together (None).

    A cancelled batch lacks some chunks. With gaps, these are skipped, and a row number is not the index of its thread.
    Without gaps, the chunks end before the first one that is not scored.

    Attributes:
        files: the files of the batch.
        scorer: the number of the grader; one above the last for combined outcomes.
        combining: what combines the outcomes of several graders; None if they are those of one.
        rows: the number of outcomes.
    """

    def __init__(self, files: OutcomeFiles, attempts: Sequence[int], scorer: int | None, with_gaps: bool) -> None:
        plan = files.plan
        self.files = files
        self.scorer = len(plan.scorers) if scorer is None else scorer
        self.combining = combining_of(plan) if scorer is None else None
        self.chunks: list[GradedChunk] = []
        self.rows = 0
        for number, chunk in enumerate(plan.chunks):
            counting = counting_of(plan, attempts, number, scorer)
            if counting is not None:
                self.chunks.append(GradedChunk(chunk, counting, self.rows))
                self.rows += chunk.lines
            elif not with_gaps:
                break

    @property
    def digest(self) -> str:
        """A digest of the outcomes that count. It changes if some are scored again."""
        counted = [unit for one in self.chunks for unit in one.counting]
        return hashlib.sha256(msgspec.msgpack.encode(counted)).hexdigest()[:16]

    def outcomes(self) -> Iterator[bytes]:
        """All outcomes, in blocks. Raises as `opened` does."""
        for one in self.chunks:
            yield from self.outcomes_of(one)

    @contextmanager
    def opened(self, one: GradedChunk) -> Iterator[Iterator[bytes]]:
        """The outcomes of one chunk, line by line. Raises as `OutcomeFiles.open` does."""
        with self._parts(one) as parts:
            yield map(self.combining or b"".join, parts)

    def outcomes_of(self, one: GradedChunk) -> Iterator[bytes]:
        """The outcomes of one chunk, in blocks. Raises as `opened` does."""
        if self.combining is None:
            with self.files.open(*one.counting[0]) as file:
                yield from iter(lambda: file.read(BLOCK_BYTES), b"")
            return
        with self.opened(one) as lines:
            yield from joined(lines)

    def threads(self) -> Iterator[bytes]:
        """The threads of all outcomes, in blocks."""
        for one in self.chunks:
            yield from self.threads_of(one)

    def threads_of(self, one: GradedChunk) -> Iterator[bytes]:
        """The threads of one chunk."""
        yield with_end(self.files.spool.read_payload(self.files.batch_id, one.chunk.offset, one.chunk.length))

    def holding(self, row: int) -> GradedChunk:
        """The chunk that contains a row."""
        return self.chunks[bisect_right(self.chunks, row, key=lambda one: one.first_row) - 1]

    def outcome_range(self, row: int, before: RowPlace, at: RowPlace) -> FileRange:
        """The byte range of a row's outcome; `before` is the place of the previous row. Combined outcomes have none."""
        one = self.holding(row)
        start = 0 if row == one.first_row else before.outcome_end
        return self.files.spool.outcomes_range(self.files.batch_id, *one.counting[0], start, at.outcome_end)

    def thread_range(self, row: int, before: RowPlace, at: RowPlace) -> FileRange:
        """The byte range of a row's thread; `before` is the place of the previous row."""
        one = self.holding(row)
        start = 0 if row == one.first_row else before.thread_end
        end = min(at.thread_end, one.chunk.length)  # the last line of a batch may lack its end
        offset = one.chunk.offset
        return self.files.spool.payload_range(self.files.batch_id, offset + start, offset + end)

    def combined_at(self, rows: Sequence[int]) -> Iterator[bytes]:
        """The combined outcomes of some rows, in ascending order, read from their chunks. Raises as `opened` does."""
        assert self.combining is not None
        for one, some in groupby(rows, self.holding):
            wanted = {row - one.first_row for row in some}
            with self._parts(one) as parts:
                for number, lines in islice(enumerate(parts), max(wanted) + 1):
                    if number in wanted:
                        yield self.combining(lines)

    @contextmanager
    def _parts(self, one: GradedChunk) -> Iterator[Iterator[tuple[bytes, ...]]]:
        """The outcomes of all graders for each thread of a chunk."""
        with ExitStack() as stack:
            opened = [stack.enter_context(self.files.open(*unit)) for unit in one.counting]
            yield zip(*opened, strict=True)
