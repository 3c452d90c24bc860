"""The "id" of each thread, which outcomes carry. The host reads it, so that no completion can say another, and an
outcome has it whatever became of the sandbox. And how many threads a group has, which is what its scores are held to.

All else in a line is passed over: it takes no memory. How long lines are is bounded where they were uploaded, how deep
by the recursion limit, which msgspec keeps.
"""

import re
from contextlib import suppress
from io import BytesIO
from itertools import islice
from typing import Annotated

import msgspec

from gradebox.group_forms import MOST_THREADS

_BLANK = b" \t\r\n\xef\xbb\xbf"  # what may stand around the object, a byte order mark too
_ESCAPES = re.compile(
    rb"(\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)


class _Thread(msgspec.Struct):
    id: (
        Annotated[str, msgspec.Meta(max_length=256)]
        | Annotated[int, msgspec.Meta(ge=1 - (1 << 63), le=(1 << 63) - 1)]
        | None
    ) = None


class _Group(msgspec.Struct):
    threads: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    completions: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decoder = msgspec.json.Decoder(_Thread)
_group_decoder = msgspec.json.Decoder(_Group)
# Members beyond its fields are passed over: a line of a few MiB may hold a million of them.
_members_decoder = msgspec.json.Decoder(
    msgspec.defstruct(
        "_Members",
        [(f"_{number}", msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for number in range(MOST_THREADS + 1)],
        array_like=True,
    )
)


def read_id(line: bytes) -> str | int | None:
    """None where the thread has no id, or the line is no thread."""
    try:
        return _decoder.decode(line).id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _read_odd(line)


def read_ids(payload: bytes, lines: int) -> list[str | int | None]:
    """That of each of so many lines; the last one may lack its end."""
    if b'"id"' not in payload and b"\\u006" not in payload:  # nor is the name written with escapes
        return [None] * lines
    # one line at a time: that keeps it in cache, and takes two thirds of the time of splitting all of them first
    return [read_id(line) for line in islice(BytesIO(payload), lines)]


def read_group_size(line: bytes) -> int:
    """How many threads the group of a line has, one too many where it has more than a group may have; 0 where the line
    is no group, or that cannot be told.
    """
    for half in (None, b""):
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            found = _group_decoder.decode(line if half is None else _whole(line.strip(_BLANK), half))
            told = found.completions if found.threads is msgspec.UNSET else found.threads
            return 0 if told is msgspec.UNSET else _count(told)
    return 0


def _count(array: msgspec.Raw) -> int:
    members = msgspec.structs.astuple(_members_decoder.decode(array))
    return members.index(msgspec.UNSET) if members[-1] is msgspec.UNSET else len(members)


def _read_odd(line: bytes) -> str | int | None:
    """The same for a line with a byte order mark, or with halves of surrogate pairs, which graders are given as they
    are. An id that has such a half is none: it would differ with what the half is replaced by.
    """
    try:
        first, second = (_decoder.decode(_whole(line.strip(_BLANK), half)).id for half in (b"", b"."))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return first if first == second else None


def _whole(line: bytes, half: bytes) -> bytes:
    """The line with this for each half of a pair."""
    return _ESCAPES.sub(lambda found: found[1] or half, line)
