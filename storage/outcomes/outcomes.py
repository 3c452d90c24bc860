"""Reads the outcomes of a batch in input order, as bytes, without parsing them."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, groupby, islice

from storage.batch_plan import counting_of
from storage.batches.batches import Batches
from storage.batches.recorded_scores import RecordedLines
from storage.outcomes.combined_outcomes import Combining, combining_of
from storage.outcomes.outcome_files import OutcomeFiles
from storage.spool.blocks import BLOCK_BYTES, joined
from storage.spool.chunks import Chunk, holding, wanted_lines
from storage.spool.spool import Spool


def read(
    batches: Batches,
    spool: Spool,
    batch_id: str,
    after: int = -1,
    limit: int | None = None,
    *,
    with_combined: bool = True,
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
        yield from joined(_chunks(batches, spool, batch_id, after, limit, with_combined, recorded))


def read_picked(batches: Batches, spool: Spool, batch_id: str, indices: Sequence[int]) -> Iterator[bytes]:
    """The lines of these threads as `read` gives them, in thread order. Threads that are not done by every grader have
    none. Raises as `read` does.
    """
    with batches.recorded.opened(batch_id) as recorded:
        yield from joined(_picked(batches, spool, batch_id, indices, recorded))


def _picked(
    batches: Batches, spool: Spool, batch_id: str, indices: Sequence[int], recorded: RecordedLines
) -> Iterator[bytes]:
    plan, attempts = batches.standing(batch_id)
    files = OutcomeFiles(batches, spool, batch_id, plan)
    for number, some in groupby(sorted(set(indices)), lambda index: holding(plan.chunks, index)):
        chunk, counting = plan.chunks[number], counting_of(plan, attempts, number)
        if counting is not None:
            wanted = [index - chunk.first_index for index in some]
            yield from _lines_of(files, counting, wanted, chunk, combining_of(plan), recorded)


def _chunks(
    batches: Batches,
    spool: Spool,
    batch_id: str,
    after: int,
    limit: int | None,
    with_combined: bool,
    recorded: RecordedLines,
) -> Iterator[bytes]:
    plan, attempts = batches.standing(batch_id)
    combining = combining_of(plan) if with_combined else None
    files = OutcomeFiles(batches, spool, batch_id, plan)
    is_over = False
    first = max(holding(plan.chunks, after + 1), 0)
    for number in range(first, len(plan.chunks)):
        if limit is not None and plan.chunks[number].first_index > after + limit:
            return
        counting = counting_of(plan, attempts, number)
        if counting is None:
            is_over = is_over or batches.settled(batch_id) == attempts
            if not is_over:
                return
            continue
        chunk = plan.chunks[number]
        lines = wanted_lines(chunk, after, limit)
        if lines:
            yield from _chunk(files, counting, lines, chunk, combining, recorded)


def _chunk(
    files: OutcomeFiles,
    counting: list[tuple[int, int]],
    wanted: range,
    chunk: Chunk,
    combining: Combining | None,
    recorded: RecordedLines,
) -> Iterator[bytes]:
    if combining is not None or not recorded.are_none:
        yield from _lines_of(files, counting, wanted, chunk, combining, recorded)
        return
    with ExitStack() as stack:
        opened = [stack.enter_context(files.open(unit, attempt)) for unit, attempt in counting]
        if len(opened) == 1 and len(wanted) == chunk.lines:
            yield from iter(lambda: opened[0].read(BLOCK_BYTES), b"")
        else:
            lines = chain.from_iterable(zip(*opened, strict=True))
            yield from islice(lines, wanted.start * len(opened), wanted.stop * len(opened))


def _lines_of(
    files: OutcomeFiles,
    counting: list[tuple[int, int]],
    wanted: Sequence[int],
    chunk: Chunk,
    combining: Combining | None,
    recorded: RecordedLines,
) -> Iterator[bytes]:
    """The lines of some threads of a chunk, given by their numbers in it, with the combined and the recorded ones."""
    with ExitStack() as stack:
        opened = [stack.enter_context(files.open(unit, attempt)) for unit, attempt in counting]
        of_threads = islice(enumerate(zip(*opened, strict=True)), wanted[-1] + 1)
        for number, each in of_threads:
            if number in wanted:
                whole = (combining(each),) if combining is not None else ()
                yield b"".join((*each, *whole, *recorded.of(chunk.first_index + number)))
