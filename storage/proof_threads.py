"""The threads that a grader was proved on: they stay with it, and later proofs use them."""

import zlib
from collections.abc import Sequence
from typing import NamedTuple

MOST_BYTES = 4 * 1024 * 1024  # of one grader's, before they are packed
_LEVEL = 6


class Packed(NamedTuple):
    """Threads as they are kept, and how many they are."""

    data: bytes
    number: int


def pack(lines: Sequence[bytes]) -> Packed:
    """As many of these JSON lines, from the first on, as are kept."""
    number = size = 0
    for line in lines:
        size += len(line) + 1
        if size > MOST_BYTES:
            break
        number += 1
    return Packed(zlib.compress(b"\n".join(lines[:number]), _LEVEL), number)


def unpack(data: bytes) -> list[bytes]:
    """The lines that `pack` has kept."""
    return zlib.decompress(data).split(b"\n")
