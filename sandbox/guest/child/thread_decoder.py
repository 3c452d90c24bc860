"""The fast reader of usual threads: a typed decoder of msgspec, which the image of a sandbox contains.

It reads a line in half the time that `json`'s scanner takes. The type describes the form of nearly every line. For
any other line the decoder raises one of `errors`, even if `json` can read the line, as with a lone surrogate.
`ThreadReader` then reads the line with `json`. The decoder reads the lines that it accepts as `json` does.

msgspec is imported from a separate folder and then removed from `sys.modules`, so that graders still have only the
standard library, and graders with packages have the msgspec of their environment. The host reads ids with msgspec too.
"""

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from gradebox.thread_forms import ROLES

PLACE = "/usr/lib/decoder"  # a folder inside the sandbox that is on no import path; it holds the package msgspec
_HIDDEN = ("msgspec", "uuid", "_uuid")
_LEVELS = 6  # of containers in metadata; a line with more is read by `json`'s scanner. Each level doubles the type


class UsualMessage(Protocol):
    """A message of a usual thread: a known role, and text."""

    role: str
    content: str


class UsualThread(Protocol):
    """A thread with messages and metadata. It may have an id, which is valid then and is not kept."""

    messages: Sequence[UsualMessage]
    metadata: dict[str, Any]


class ThreadDecoder(NamedTuple):
    """A function that reads the bytes of a line, and the errors that it raises for a line that is no usual thread."""

    decode: Callable[[bytes], UsualThread]
    errors: tuple[type[Exception], ...]


@cache
def hidden_decoder(place: str = PLACE) -> ThreadDecoder:
    """Makes the decoder with the package in this folder, and removes the package from `sys.modules` again.

    Called before the module body of a grader runs, which may import modules of the same names.

    Raises:
        ImportError: the folder does not hold the package.
    """
    sys.path.insert(0, place)
    sys.modules["_uuid"] = None  # type: ignore[assignment]  # each child would copy its ten mappings; nothing uses it
    try:
        return thread_decoder()
    finally:
        sys.path.remove(place)
        for name in [name for name in sys.modules if name.partition(".")[0] in _HIDDEN]:
            del sys.modules[name]


def thread_decoder() -> ThreadDecoder:
    """Makes the decoder with the msgspec that is imported here."""
    from msgspec import DecodeError, Meta, defstruct
    from msgspec.json import Decoder

    value: Any = str | int | float | bool | None
    for _ in range(_LEVELS):
        value = str | int | float | bool | list[value] | dict[str, value] | None
    text_id = Annotated[str, Meta(max_length=256)]
    number_id = Annotated[int, Meta(ge=1 - (1 << 63), le=(1 << 63) - 1)]
    message: Any = defstruct(
        "Message", [("role", Literal[*sorted(ROLES)]), ("content", str)], forbid_unknown_fields=True, gc=False
    )
    thread = defstruct(
        "Thread",
        [("messages", list[message]), ("metadata", dict[str, value]), ("id", text_id | number_id | None, None)],
        forbid_unknown_fields=True,
        gc=False,
    )
    decode: Any = Decoder(thread).decode
    return ThreadDecoder(decode, (DecodeError, UnicodeDecodeError))
