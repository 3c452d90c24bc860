"""Reads the outcomes of a batch in input order, as bytes, without parsing them."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby, islice
from typing import NamedTuple

from storage.batch_plan import counting_of
from storage.batches.batches import Batches
from storage.batches.recorded_scores import RecordedLines
from storage.outcomes.combined_outcomes import Combining, combining_of
from storage.outcomes.outcome_files import OutcomeFiles
from storage.spool.blocks import BLOCK_BYTES, joined
from storage.spool.chunks import Chunk, holding, wanted_lines


def read(
    batches: Batches, batch_id: str, after: int = -1, limit: int | None = None, *, with_combined: bool = True
) -> Iterator[bytes]:
    """Whole lines of the threads after number `after`, only of the next `limit` threads if it is given, in blocks.

    It ends before the first thread that is not done by every grader; of a batch that is over, it leaves these out. Only
    the last block may be shorter than `BLOCK_BYTES`.

    With several graders, each thread has one line for each, in the batch's order. These are followed by the combined
    outcome, if the batch has such and `with_combined` is true, and by one line for each score of the thread that was
    recorded from outside.

    Raises:
        OutcomesLost: outcomes of these threads are gone from the spool, or cut off.
        NotFound: there is no such batch, or it was deleted meanwhile.
        OSError: the spool cannot be read now.
    """
    with batches.recorded.opened(batch_id) as recorded:
        yield from joined(_in_order(batches, batch_id, after, limit, with_combined, recorded))


def read_picked(batches: Batches, batch_id: str, indices: Sequence[int]) -> Iterator[bytes]:
    """The lines of these threads as `read` gives them, in thread order. Threads that are not done by every grader have
    none. Raises as `read` does.
    """
    with batches.recorded.opened(batch_id) as recorded:
        yield from joined(_picked(batches, batch_id, indices, recorded))


def _in_order(
    batches: Batches, batch_id: str, after: int, limit: int | None, with_combined: bool, recorded: RecordedLines
) -> Iterator[bytes]:
    plan, attempts = batches.standing(batch_id)
    combining = combining_of(plan) if with_combined else None
    lines = _Lines(OutcomeFiles(batches, batch_id, plan), combining, recorded)
    is_over = False
    for number in range(max(holding(plan.chunks, after + 1), 0), len(plan.chunks)):
        chunk = plan.chunks[number]
        if limit is not None and chunk.first_index > after + limit:
            return
        counting = counting_of(plan, attempts, number)
        if counting is None:
            is_over = is_over or batches.settled(batch_id) == attempts
            if not is_over:
                return
        elif wanted := wanted_lines(chunk, after, limit):
            yield from lines.of(chunk, counting, wanted)


def _picked(batches: Batches, batch_id: str, indices: Sequence[int], recorded: RecordedLines) -> Iterator[bytes]:
    plan, attempts = batches.standing(batch_id)
    lines = _Lines(OutcomeFiles(batches, batch_id, plan), combining_of(plan), recorded)
    for number, some in groupby(sorted(set(indices)), lambda index: holding(plan.chunks, index)):
        chunk, counting = plan.chunks[number], counting_of(plan, attempts, number)
        if counting is not None:
            yield from lines.of(chunk, counting, [index - chunk.first_index for index in some])


class _Lines(NamedTuple):
    """Reads the lines of threads: of each grader, and the combined and the recorded ones."""

    files: OutcomeFiles
    combining: Combining | None
    recorded: RecordedLines

    def of(self, chunk: Chunk, counting: list[tuple[int, int]], wanted: range | list[int]) -> Iterator[bytes]:
        """The lines of some threads of a chunk, given by their numbers in it, in ascending order."""
        with ExitStack() as stack:
            opened = [stack.enter_context(self.files.open(unit, attempt)) for unit, attempt in counting]
            if self.combining is not None or not self.recorded.are_none or isinstance(wanted, list):
                for number, each in islice(enumerate(zip(*opened, strict=True)), wanted[-1] + 1):
                    if number in wanted:
                        whole = (self.combining(each),) if self.combining is not None else ()
                        yield b"".join((*each, *whole, *self.recorded.of(chunk.first_index + number)))
            elif len(opened) == 1 and len(wanted) == chunk.lines:
                yield from iter(lambda: opened[0].read(BLOCK_BYTES), b"")
            else:
                yield from map(b"".join, islice(zip(*opened, strict=True), wanted.start, wanted.stop))
