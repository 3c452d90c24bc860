"""Blocks of lines: what is moved at once."""

from collections.abc import Iterable, Iterator

BLOCK_BYTES = 256 * 1024


def lines_of(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of blocks, which need not end where lines end; without their ends."""
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
    if rest:
        yield rest


def joined(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces in few blocks: each block has a cost. None but the last is shorter than `BLOCK_BYTES`."""
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
