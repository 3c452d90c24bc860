"""Reads the threads of a batch in input order, as bytes: they are moved, not parsed."""

from collections.abc import Iterator

from storage.batches import Batches
from storage.chunks import holding
from storage.outcomes import joined
from storage.spool import Spool


def read(batches: Batches, spool: Spool, batch_id: str, after: int = -1) -> Iterator[bytes]:
    """Whole lines of the threads after number `after`, in blocks as `outcomes.read` gives them."""
    return joined(_chunks(batches, spool, batch_id, after))


def _chunks(batches: Batches, spool: Spool, batch_id: str, after: int) -> Iterator[bytes]:
    standing = batches.standing(batch_id)
    if standing is None:
        return
    chunks = standing[0].chunks
    for chunk in chunks[max(holding(chunks, after + 1), 0) :]:
        skip = after + 1 - chunk.first_index
        if skip >= chunk.lines:
            continue
        payload = spool.read_payload(batch_id, chunk.offset, chunk.length)
        start = 0
        for _ in range(skip):
            start = payload.index(b"\n", start) + 1
        yield payload[start:] if payload.endswith(b"\n") else payload[start:] + b"\n"
