"""Records in memory that a child shares with the supervisor: telling one costs no system call.

Each record has its head in a slot, and its fields, where there are any, behind those of the record before. The room for
fields is bounded: a record that does not fit goes through the pipe, and its slot says so.

Only for batch isolation, which promises nothing between the completions of a chunk: whoever takes the child over can
write here, and forge any of its outcomes. So the supervisor copies what it reads, once, and checks the copy.

A slot whose mark is there may yet lack its score, on processors that do not show writes in order. So it counts when the
child has said by a system call that it is filled, or has ended; until then it shows that the child goes on.
"""

import errno
import mmap
import os
from contextlib import suppress

from sandbox.guest.protocol.frames import MARK, RECORD, Malformed, Records, length_of_bodies

MOST = 2048  # slots; a larger chunk does without
FIELDS_AT = MOST * RECORD.size  # where the fields begin
_FIELD_BYTES = 256  # on average, of each record: a reason of one or two sentences, or a message
MOST_FIELD_BYTES = 256 << 10  # of all: with what the pipe holds besides, it fits into one frame to the host
BYTES = FIELDS_AT + MOST_FIELD_BYTES
_KIND, _MARK_TOP = RECORD.size - 4, RECORD.size - 1  # the lowest and the highest byte of a record's head


def make_file() -> int:
    """A new file without a name, as large as all slots and fields."""
    descriptor = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    os.ftruncate(descriptor, BYTES)
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


def make_room(descriptor: int, count: int) -> int:
    """How many bytes there are for the fields of so many records. It is really there: to write where no memory is left
    would end the child.
    """
    room = min(count * _FIELD_BYTES, MOST_FIELD_BYTES)
    try:
        os.posix_fallocate(descriptor, FIELDS_AT, room)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.ENOMEM):
            raise
        return 0  # the grader has taken it all: fields go through the pipe
    return room


def read_records(descriptor: int, heads: bytes, start: int, room: int) -> Records:
    """The records of these slots, up to the first that is none. Their fields begin at `start` and end within `room`."""
    try:
        length = length_of_bodies(heads)
    except Malformed:
        length = room + 1
    if length > room - start:
        heads, length = _before_forged(heads, room - start)
    return Records(heads, os.pread(descriptor, length, FIELDS_AT + start) if length else b"")


def _before_forged(heads: bytes, room: int) -> tuple[bytes, int]:
    """Those from the first on that have a mark, and fields within what is left of the room; and how long these are."""
    end = total = 0
    with suppress(Malformed):
        for position in range(0, len(heads), RECORD.size):
            total_here = total + length_of_bodies(heads[position : position + RECORD.size])
            if total_here > room:
                break
            end, total = position + RECORD.size, total_here
    return heads[:end], total


def kinds(heads: bytes) -> bytes:
    """The kind of each record. It is `ELSEWHERE` where the record comes through the pipe."""
    return heads[_KIND :: RECORD.size]


def map_file(descriptor: int) -> mmap.mmap:
    """The memory, for a child to fill. It packs a head in one go, whose last part is the mark that makes it count."""
    memory = mmap.mmap(descriptor, BYTES)
    os.close(descriptor)
    return memory
