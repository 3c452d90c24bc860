"""Reads the outcomes of a batch in input order, as bytes: they are moved, not parsed."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, islice

from storage.batch_plan import Plan
from storage.batches import Batches
from storage.chunks import Chunk, holding
from storage.recorded_scores import RecordedLines
from storage.spool import Spool

BLOCK_BYTES = 256 * 1024


def read(batches: Batches, spool: Spool, batch_id: str, after: int = -1) -> Iterator[bytes]:
    """Whole lines of the threads after number `after`, in blocks: as far as every thread is done by every grader. None
    but the last is shorter than `BLOCK_BYTES`.

    With several graders, each thread has a line for each, in the batch's order; and behind them one for each score
    that was recorded of it from outside.
    """
    with batches.recorded.opened(batch_id) as recorded:
        yield from joined(_chunks(batches, spool, batch_id, after, recorded))


def _chunks(batches: Batches, spool: Spool, batch_id: str, after: int, recorded: RecordedLines) -> Iterator[bytes]:
    standing = batches.standing(batch_id)
    if standing is None:
        return
    plan, attempts = standing
    first = max(holding(plan.chunks, after + 1), 0)
    for number in range(first, len(plan.chunks)):
        files = _counting(plan, attempts, number)
        if files is None:
            return
        chunk = plan.chunks[number]
        if after + 1 < chunk.first_index + chunk.lines:
            yield from _chunk(spool, batch_id, files, max(after + 1 - chunk.first_index, 0), chunk, recorded)


def _counting(plan: Plan, attempts: list[int], chunk: int) -> list[tuple[int, int]] | None:
    """The unit and attempt of each grader for one chunk, or None where one is not done."""
    units = range(chunk, len(plan.chunks) * len(plan.scorers), len(plan.chunks))
    if any(unit >= len(attempts) or not attempts[unit] for unit in units):
        return None
    return [(unit, attempts[unit]) for unit in units]


def _chunk(
    spool: Spool, batch_id: str, files: list[tuple[int, int]], skip: int, chunk: Chunk, recorded: RecordedLines
) -> Iterator[bytes]:
    with ExitStack() as stack:
        opened = [stack.enter_context(spool.open_outcomes(batch_id, unit, attempt)) for unit, attempt in files]
        if not recorded.are_none:
            of_threads = enumerate(zip(*opened, strict=True), chunk.first_index)
            for number, each in islice(of_threads, skip, chunk.lines):
                yield b"".join((*each, *recorded.of(number)))
        elif len(opened) == 1 and not skip:
            yield from iter(lambda: opened[0].read(BLOCK_BYTES), b"")
        else:
            lines = chain.from_iterable(zip(*opened, strict=True))
            yield from islice(lines, skip * len(opened), chunk.lines * len(opened))


def joined(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces in few blocks: sending each block has a cost."""
    block: list[bytes] = []
    size = 0
    for piece in pieces:
        block.append(piece)
        size += len(piece)
        if size >= BLOCK_BYTES:
            yield b"".join(block)
            block, size = [], 0
    if block:
        yield b"".join(block)
