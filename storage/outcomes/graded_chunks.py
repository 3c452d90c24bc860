"""The chunks of a batch that one grader has scored. Their outcomes, chunk by chunk, are the rows of its table."""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import IO, NamedTuple

import msgspec

from storage.batch_plan import Plan
from storage.batches.batch_threads import with_end
from storage.outcomes.outcome_files import OutcomeFiles
from storage.spool.blocks import BLOCK_BYTES
from storage.spool.chunks import Chunk
from storage.spool.file_store import FileRange
from storage.spool.spool import Spool


class GradedChunk(NamedTuple):
    """A chunk with outcomes that count."""

    chunk: Chunk
    unit: int
    attempt: int
    first_row: int


class RowPlace(NamedTuple):
    """The ends of one row's lines in their chunk: its outcome in the file of the unit, its thread in the payload.

    They begin where those of the previous row end.
    """

    outcome_end: int
    thread_end: int


class GradedChunks:
    """The scored chunks of one grader, given by its number in the batch.

    A cancelled batch lacks some chunks. With gaps, these are skipped, and a row number is not the index of its thread.
    Without gaps, the chunks end before the first one that is not scored.

    Attributes:
        rows: the number of outcomes.
    """

    def __init__(
        self, files: OutcomeFiles, batch_id: str, plan: Plan, attempts: Sequence[int], scorer: int, with_gaps: bool
    ) -> None:
        self._files = files
        self._batch_id = batch_id
        self.scorer = scorer
        self.chunks: list[GradedChunk] = []
        self.rows = 0
        for number, chunk in enumerate(plan.chunks):
            unit = scorer * len(plan.chunks) + number
            if unit < len(attempts) and attempts[unit]:
                self.chunks.append(GradedChunk(chunk, unit, attempts[unit], self.rows))
                self.rows += chunk.lines
            elif not with_gaps:
                break

    @property
    def digest(self) -> str:
        """A digest of the outcomes that count. It changes if some are scored again."""
        counted = [(one.unit, one.attempt) for one in self.chunks]
        return hashlib.sha256(msgspec.msgpack.encode(counted)).hexdigest()[:16]

    def outcomes(self) -> Iterator[bytes]:
        """All outcomes, in blocks. Raises as `opened` does."""
        for one in self.chunks:
            yield from self.outcomes_of(one)

    def opened(self, one: GradedChunk) -> IO[bytes]:
        """The file of one chunk's outcomes, one per line. Raises as `OutcomeFiles.open` does."""
        return self._files.open(one.unit, one.attempt)

    def outcomes_of(self, one: GradedChunk) -> Iterator[bytes]:
        """The outcomes of one chunk, in blocks. Raises as `opened` does."""
        with self.opened(one) as file:
            yield from iter(lambda: file.read(BLOCK_BYTES), b"")

    def threads(self, spool: Spool) -> Iterator[bytes]:
        """The threads of all outcomes, in blocks."""
        for one in self.chunks:
            yield from self.threads_of(spool, one)

    def threads_of(self, spool: Spool, one: GradedChunk) -> Iterator[bytes]:
        """The threads of one chunk."""
        yield with_end(spool.read_payload(self._batch_id, one.chunk.offset, one.chunk.length))

    def holding(self, row: int) -> GradedChunk:
        """The chunk that contains a row."""
        return self.chunks[bisect_right(self.chunks, row, key=lambda one: one.first_row) - 1]

    def ranges(self, spool: Spool, row: int, before: RowPlace, at: RowPlace) -> tuple[FileRange, FileRange]:
        """The byte ranges of a row's outcome and of its thread; `before` is the place of the previous row."""
        one = self.holding(row)
        start = RowPlace(0, 0) if row == one.first_row else before
        outcome = spool.outcomes_range(self._batch_id, one.unit, one.attempt, start.outcome_end, at.outcome_end)
        end = min(at.thread_end, one.chunk.length)  # the last line of a batch may lack its end
        offset = one.chunk.offset
        return outcome, spool.payload_range(self._batch_id, offset + start.thread_end, offset + end)
