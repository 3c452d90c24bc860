"""Memory in which the guest can read the threads of a batch."""

import fcntl
import mmap
import os

from sandbox.guest.protocol.chunk import SHARED_BYTES

_F_SEAL_FUTURE_WRITE = 0x10  # the existing mapping stays writable; no other writable one can ever be made
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | _F_SEAL_FUTURE_WRITE


def shared_memory() -> tuple[mmap.mmap, int]:
    """New memory, and a descriptor for the guest, which the caller closes.

    The guest can read the memory, but can neither write nor shrink it, even if it reopens it. But it can change the
    file's times and mode, and the position and flags of the open file, so each batch has a separate file.
    """
    writing = os.memfd_create("chunk", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(writing, SHARED_BYTES)
        shared = mmap.mmap(writing, SHARED_BYTES)
        fcntl.fcntl(writing, fcntl.F_ADD_SEALS, _SEALS)
        return shared, os.open(f"/proc/self/fd/{writing}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(writing)
