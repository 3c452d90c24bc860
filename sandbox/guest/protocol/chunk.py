"""The lines of one chunk. If there is shared memory, they are in it, so that children read them in place."""

import mmap
import os
from functools import cached_property

SHARED_BYTES = 4 << 20  # of shared memory for each sandbox; a larger chunk is sent over the channel


class SentChunk:
    """`count` lines in `length` bytes. `payload` is None if they are in the shared memory."""

    def __init__(self, count: int, length: int, payload: bytes | None, shared: int) -> None:
        self.count = count
        self.length = length
        self.shared = payload is None
        self._payload = payload
        self._descriptor = shared

    @cached_property
    def lines(self) -> list[bytes]:
        """The separate lines. Used only if a child must not see all of them, or if they are not in shared memory."""
        payload = self._payload if self._payload is not None else os.pread(self._descriptor, self.length, 0)
        return payload.split(b"\n")[: self.count]


def map_shared(descriptor: int) -> mmap.mmap:
    """Maps the shared memory for reading. The descriptor does not permit writing."""
    return mmap.mmap(descriptor, SHARED_BYTES, mmap.MAP_SHARED, mmap.PROT_READ)
