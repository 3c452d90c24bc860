"""Reads the threads of a batch as bytes, without parsing them."""

from collections.abc import Iterator, Sequence

from storage.batches.batches import Batches
from storage.errors import Refused
from storage.spool.blocks import joined
from storage.spool.chunks import Chunk, holding, wanted_lines


def read(batches: Batches, batch_id: str, after: int = -1, limit: int | None = None) -> Iterator[bytes]:
    """Whole lines of the threads after number `after`, at most `limit` of them if it is given, in blocks like those of
    `outcomes.read`. Raises NotFound, PayloadLost and OSError.
    """
    return joined(_chunks(batches, batch_id, after, limit))


def _chunks(batches: Batches, batch_id: str, after: int, limit: int | None) -> Iterator[bytes]:
    chunks = batches.standing(batch_id)[0].chunks
    for chunk in chunks[max(holding(chunks, after + 1), 0) :]:
        if wanted := wanted_lines(chunk, after, limit):
            yield _lines_of(batches, batch_id, chunk, wanted)  # no name here keeps them while a reader is slow


def _lines_of(batches: Batches, batch_id: str, chunk: Chunk, wanted: range) -> bytes:
    payload = batches.spool.read_payload(batch_id, chunk.offset, chunk.length)
    start = _position_after(payload, wanted.start)
    end = len(payload) if wanted.stop == chunk.lines else _position_after(payload, len(wanted), start)
    return with_end(payload[start:end])


def read_picked(batches: Batches, batch_id: str, indices: Sequence[int]) -> Iterator[bytes]:
    """The lines of these threads, in this order, in blocks. Raises Refused before the first block if one does not
    exist; else as `read` does.
    """
    return joined(_picked(batches, batch_id, indices))


def _picked(batches: Batches, batch_id: str, indices: Sequence[int]) -> Iterator[bytes]:
    chunks = batches.standing(batch_id)[0].chunks
    threads = chunks[-1].first_index + chunks[-1].lines
    missing = [str(index) for index in indices if index >= threads]
    if missing:
        raise Refused(
            f"batch {batch_id} has no thread {', '.join(missing)}: its {threads} threads are 0 to {threads - 1}"
        )
    number, payload = -1, b""
    for index in indices:
        if (at := holding(chunks, index)) != number:
            number, payload = at, batches.spool.read_payload(batch_id, chunks[at].offset, chunks[at].length)
        start = _position_after(payload, index - chunks[at].first_index)
        end = payload.find(b"\n", start)
        yield with_end(payload[start:end] if end >= 0 else payload[start:])


def with_end(lines: bytes) -> bytes:
    """The lines, each with a line end: the last line of a batch may lack it."""
    return lines if lines.endswith(b"\n") else lines + b"\n"


def _position_after(payload: bytes, lines: int, start: int = 0) -> int:
    """The position after this many lines."""
    for _ in range(lines):
        start = payload.index(b"\n", start) + 1
    return start
