"""The "id" of each thread, which outcomes carry. The host reads it, so that no completion can forge another id, and an
outcome has it whatever happens to the sandbox. Also the number of threads of a group, against which its scores are
checked.

The rest of a line is skipped and takes no memory. The length of lines is limited when they are uploaded, their depth by
the recursion limit, which msgspec respects.
"""

import re
from contextlib import suppress
from io import BytesIO
from itertools import islice
from typing import Annotated

import msgspec

from gradebox.group_forms import MOST_THREADS
from gradebox.limits import ID_CHARACTERS

_BLANK = b" \t\r\n\xef\xbb\xbf"  # what may surround the object, including a byte order mark
_ESCAPES = re.compile(
    rb"(\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)


class _Thread(msgspec.Struct):
    id: (
        Annotated[str, msgspec.Meta(max_length=ID_CHARACTERS)]
        | Annotated[int, msgspec.Meta(ge=1 - (1 << 63), le=(1 << 63) - 1)]
        | None
    ) = None


class _Group(msgspec.Struct):
    threads: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    completions: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decoder = msgspec.json.Decoder(_Thread)
_group_decoder = msgspec.json.Decoder(_Group)
# Members beyond its fields are skipped: a line of a few MiB may hold a million of them.
_members_decoder = msgspec.json.Decoder(
    msgspec.defstruct(
        "_Members",
        [(f"_{number}", msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for number in range(MOST_THREADS + 1)],
        array_like=True,
    )
)


def read_id(line: bytes) -> str | int | None:
    """Returns the id of a thread; None if it has no id, or the line is no thread."""
    try:
        return _decoder.decode(line).id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _read_odd(line)


def read_ids(payload: bytes, lines: int) -> list[str | int | None]:
    """Returns the ids of the first `lines` lines; the last one may lack its newline."""
    if b'"id"' not in payload and b"\\u006" not in payload:  # nor is the name written with escapes
        return [None] * lines
    # one line at a time stays in cache, and takes two thirds of the time of splitting all lines first
    return [read_id(line) for line in islice(BytesIO(payload), lines)]


def read_group_size(line: bytes) -> int:
    """Returns the number of threads in the group of a line; one too many if it exceeds the maximum; 0 if the line is no
    group, or the number cannot be determined.
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
    """Reads the id of a line with a byte order mark, or with halves of surrogate pairs, which graders receive
    unchanged. An id that contains a half counts as none, because it would depend on the replacement of the half.
    """
    try:
        first, second = (_decoder.decode(_whole(line.strip(_BLANK), half)).id for half in (b"", b"."))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return first if first == second else None


def _whole(line: bytes, half: bytes) -> bytes:
    """The line with each half of a surrogate pair replaced by `half`."""
    if b"\\u" not in line:  # a look at each byte of megabytes would block all projects
        return line
    return _ESCAPES.sub(lambda found: found[1] or half, line)
