"""Blocks of lines, for moving many lines at once."""

from collections.abc import Iterable, Iterator

BLOCK_BYTES = 256 * 1024


def lines_of(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of blocks, without their line ends. A block may end within a line."""
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
    if rest:
        yield rest


def joined(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Joins pieces into few blocks, since each has a fixed cost. Only the last may be shorter than `BLOCK_BYTES`."""
    block: list[bytes] = []
    size = 0
    for piece in pieces:
        block.append(piece)
        size += len(piece)
        del piece  # while a reader is slow, this holds nothing
        if size >= BLOCK_BYTES:
            size = 0
            yield _taken(block)
    if block:
        yield _taken(block)


def _taken(block: list[bytes]) -> bytes:
    whole = b"".join(block)
    block.clear()
    return whole
