"""Records without fields, in memory that a child shares with the supervisor: telling one costs no system call.

Only for batch isolation, which promises nothing between the completions of a chunk: whoever takes the child over can
write here, and forge any of its outcomes. A record with fields goes through the pipe, and its slot says so.

A slot whose mark is there may yet lack its score, on processors that do not show writes in order. So it counts when the
child has said by a system call that it is filled, or has ended; until then it shows that the child goes on.
"""

import mmap
import os

from sandbox.guest.frames import ELSEWHERE, MARK, RECORD

MOST = 2048  # slots; a larger chunk does without
_BYTES = MOST * RECORD.size
_KIND, _MARK_TOP = RECORD.size - 4, RECORD.size - 1  # the lowest and the highest byte of a record's head


def make_file() -> int:
    """A new file without a name, as large as all slots."""
    descriptor = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    os.ftruncate(descriptor, _BYTES)
    return descriptor


def clear(descriptor: int, count: int) -> None:
    """Empties the slots of a chunk that is about to begin."""
    os.pwrite(descriptor, bytes(count * RECORD.size), 0)


def read(descriptor: int, first: int, last: int) -> bytes:
    """The slots from `first` to before `last` that are filled, up to the first that is not."""
    size = RECORD.size
    data = os.pread(descriptor, (last - first) * size, first * size)
    whole = len(data) // size * size
    marks = data[_MARK_TOP:whole:size]
    filled = len(marks) - len(marks.lstrip(bytes([MARK >> 24])))
    return data[: filled * size]


def plain(data: bytes) -> int:
    """How many of these slots, from the first, hold records of their own."""
    found = data[_KIND :: RECORD.size].find(bytes([ELSEWHERE]))
    return len(data) // RECORD.size if found < 0 else found


def map_file(descriptor: int) -> mmap.mmap:
    """The slots, for a child to fill. It packs a record in one go, whose last part is the mark that makes it count."""
    memory = mmap.mmap(descriptor, _BYTES)
    os.close(descriptor)
    return memory
