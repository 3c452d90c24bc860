"""Reads the lines of outcomes and of their threads, for rows of the table."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice

from storage.errors import CutOff
from storage.outcomes.graded_chunks import GradedChunks
from storage.outcomes.outcome_index import OutcomeIndex

THREAD_BYTES = 256 * 1024  # longer threads show no completion: parsing may take twenty times their size in memory

Lines = tuple[bytes, bytes | None]
"""An outcome, and its thread; None if the thread is longer than `THREAD_BYTES`."""


def by_index(graded: GradedChunks, index: OutcomeIndex, rows: Sequence[int]) -> Iterator[Lines]:
    """The lines of any rows, in ascending order. Raises OSError, Conflict and OutcomesLost."""
    files = graded.files.spool.files
    places = [(row, before, at) for row, (before, at) in zip(rows, index.places(rows), strict=True)]
    threads = [graded.thread_range(*place) for place in places]
    is_long = [thread.end - thread.start > THREAD_BYTES for thread in threads]
    shown = [
        thread._replace(end=thread.start) if long else thread for long, thread in zip(is_long, threads, strict=True)
    ]
    if graded.combining is not None:
        combined = graded.combined_at(rows)
        for long, outcome, thread in zip(is_long, combined, files.read_ranges(shown), strict=True):
            yield outcome, None if long else thread
        return
    outcomes = [graded.outcome_range(*place) for place in places]
    read = files.read_ranges(chain.from_iterable(zip(outcomes, shown, strict=True)))
    try:
        for long, outcome, thread in zip(is_long, read, read, strict=True):
            yield outcome, None if long else thread
    except (FileNotFoundError, CutOff):
        for row in rows:
            with graded.opened(graded.holding(row)):  # raises if outcomes are lost
                pass
        raise


def in_order(graded: GradedChunks, rows: range) -> Iterator[Lines]:
    """The lines of consecutive rows, read from their chunks without an index. Raises OSError and OutcomesLost."""
    for one in graded.chunks:
        some = range(max(rows.start - one.first_row, 0), min(rows.stop - one.first_row, one.chunk.lines))
        if not some:
            continue
        threads = b"".join(graded.threads_of(one)).split(b"\n")
        with graded.opened(one) as outcomes:
            for outcome, thread in zip(islice(outcomes, some.start, some.stop), threads[some.start :], strict=False):
                yield outcome, None if len(thread) > THREAD_BYTES else thread
