"""Records in memory that a child shares with the supervisor. Writing one costs no system call.

The head of each record is in a slot. Its fields, if it has any, follow those of the previous record. The room for
fields is bounded: a record that does not fit is sent through the pipe, and its slot has the kind `ELSEWHERE`.

This is only for batch isolation, which promises nothing between the completions of a chunk: code that controls the
child can write here and forge any of its outcomes. So the supervisor copies what it reads, once, and checks the copy.

A slot that has its mark may still lack its score, on processors that do not make writes visible in order. So it counts
only after the child has reported by a system call that it is filled, or has ended. Until then it only shows that the
child makes progress.
"""

import errno
import mmap
import os
from contextlib import suppress

from sandbox.guest.protocol.fields import Malformed
from sandbox.guest.protocol.records import MARK, RECORD, Records, length_of_bodies

MOST = 2048  # slots; a larger chunk has none
FIELDS_AT = MOST * RECORD.size  # where the fields begin
_FIELD_BYTES = 256  # average for each record: a reason of one or two sentences, or a message
MOST_FIELD_BYTES = 256 << 10  # total: together with the content of the pipe, it fits into one frame to the host
BYTES = FIELDS_AT + MOST_FIELD_BYTES
_KIND, _MARK_TOP = RECORD.size - 4, RECORD.size - 1  # the lowest and the highest byte of a record's head


def make_file() -> int:
    """Creates an unnamed file, as large as all slots and fields."""
    descriptor = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    os.ftruncate(descriptor, BYTES)
    return descriptor


def clear(descriptor: int, count: int) -> None:
    """Clears the slots for a chunk that is about to start."""
    os.pwrite(descriptor, bytes(count * RECORD.size), 0)


def read(descriptor: int, first: int, last: int) -> bytes:
    """Reads the filled slots from `first` to before `last`, up to the first that is not filled."""
    size = RECORD.size
    data = os.pread(descriptor, (last - first) * size, first * size)
    whole = len(data) // size * size
    marks = data[_MARK_TOP:whole:size]
    filled = len(marks) - len(marks.lstrip(bytes([MARK >> 24])))
    return data[: filled * size]


def make_room(descriptor: int, count: int) -> int:
    """Allocates room for the fields of `count` records. Returns its bytes.

    The memory is really allocated, because a write without free memory would end the child.
    """
    room = min(count * _FIELD_BYTES, MOST_FIELD_BYTES)
    try:
        os.posix_fallocate(descriptor, FIELDS_AT, room)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.ENOMEM):
            raise
        return 0  # the grader has used all memory: fields go through the pipe
    return room


def read_records(descriptor: int, heads: bytes, start: int, room: int) -> Records:
    """Reads the records of these slots, up to the first invalid one. Their fields begin at `start`, within `room`."""
    try:
        length = length_of_bodies(heads)
    except Malformed:
        length = room + 1
    if length > room - start:
        heads, length = _before_forged(heads, room - start)
    return Records(heads, os.pread(descriptor, length, FIELDS_AT + start) if length else b"")


def _before_forged(heads: bytes, room: int) -> tuple[bytes, int]:
    """Returns the leading heads that have a mark and whose fields fit into `room`, and the bytes of these fields."""
    end = total = 0
    with suppress(Malformed):
        for position in range(0, len(heads), RECORD.size):
            total_here = total + length_of_bodies(heads[position : position + RECORD.size])
            if total_here > room:
                break
            end, total = position + RECORD.size, total_here
    return heads[:end], total


def kinds(heads: bytes) -> bytes:
    """The kind of each record. It is `ELSEWHERE` if the record is sent through the pipe."""
    return heads[_KIND :: RECORD.size]


def map_file(descriptor: int) -> mmap.mmap:
    """Maps the memory for a child to fill. A head is packed in one go; the mark, its last part, makes it count."""
    memory = mmap.mmap(descriptor, BYTES)
    os.close(descriptor)
    return memory
