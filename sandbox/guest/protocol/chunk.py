"""The lines that the host wants graded. In shared memory where there is any: children then read them where they lie."""

import mmap
import os
from functools import cached_property

SHARED_BYTES = 4 << 20  # of shared memory for each sandbox; a larger chunk comes over the channel


class SentChunk:
    """So many lines, in so many bytes; `payload` is None where they lie in the shared memory."""

    def __init__(self, count: int, length: int, payload: bytes | None, shared: int) -> None:
        self.count = count
        self.length = length
        self.shared = payload is None
        self._payload = payload
        self._descriptor = shared

    @cached_property
    def lines(self) -> list[bytes]:
        """Each line. The supervisor looks at them only where a child must not see them all."""
        payload = self._payload if self._payload is not None else os.pread(self._descriptor, self.length, 0)
        return payload.split(b"\n")[: self.count]


def map_shared(descriptor: int) -> mmap.mmap:
    """The shared memory, for reading; whoever holds the descriptor cannot write it."""
    return mmap.mmap(descriptor, SHARED_BYTES, mmap.MAP_SHARED, mmap.PROT_READ)
