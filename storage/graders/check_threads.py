"""The threads that a grader was checked on. They are stored with it, and later checks use them."""

import hashlib
import zlib
from collections.abc import Sequence
from typing import NamedTuple

MOST_BYTES = 4 * 1024 * 1024  # for one grader, before compression
_LEVEL = 6


class Packed(NamedTuple):
    """Compressed threads, and their number."""

    data: bytes
    number: int


def pack(lines: Sequence[bytes]) -> Packed:
    """Packs as many of these JSON lines, from the first on, as fit in `MOST_BYTES`."""
    fitting = _fitting(lines)
    return Packed(zlib.compress(b"\n".join(fitting), _LEVEL), len(fitting))


def digest(lines: Sequence[bytes]) -> str:
    """The SHA-256 of what `pack` stores of these lines."""
    return hashlib.sha256(b"\n".join(_fitting(lines))).hexdigest()


def _fitting(lines: Sequence[bytes]) -> Sequence[bytes]:
    number = size = 0
    for line in lines:
        size += len(line) + 1
        if size > MOST_BYTES:
            break
        number += 1
    return lines[:number]


def unpack(data: bytes) -> list[bytes]:
    """The lines that `pack` stored; none if nothing was stored."""
    return zlib.decompress(data).split(b"\n") if data else []
