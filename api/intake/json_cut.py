"""Splits JSON texts into their members and elements, which stay as they were sent, unparsed.

msgspec rejects a whole text for one unpaired surrogate, e.g. half of an emoji. These are legal JSON, and how to treat
them is decided in the sandbox. So a text with surrogates is parsed as a copy of the same length in which each surrogate
escape is replaced, and the parts are then cut out of the original text.
"""

import json
import re
from contextlib import suppress
from functools import cache

import msgspec

from sandbox.limits import MAX_LINE_DEPTH

FEW = 250_000  # parts that may be held as objects before they are counted: about 20 MB

_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_KEY = re.compile(rb"[ \t\r\n,]*+(" + _STRING + rb")[ \t\r\n]*+:[ \t\r\n]*+", re.DOTALL)
_END = re.compile(rb"[ \t\r\n]*+\}")
_BETWEEN = re.compile(rb"[ \t\r\n,]*+")


class TooManyError(Exception):
    """An array or an object has too many parts, or a part that is too long or too deep to be counted."""


class TwiceError(Exception):
    """An object has two members with the same name."""


def holds_surrogates(text: bytes) -> bool:
    """Whether the text may contain a surrogate escape, paired or not."""
    return b"\\ud" in text or b"\\uD" in text


def masked(text: bytes) -> bytes:
    """Returns a text of the same length and structure without surrogates. Its strings differ."""
    return text.replace(b"\\ud", b"\\ue").replace(b"\\uD", b"\\ue")


def fault(text: bytes, error: Exception) -> str:
    """What is wrong with a text that msgspec could not decode. Of half a surrogate pair it says that the text ends."""
    if isinstance(error, msgspec.DecodeError) and not isinstance(error, msgspec.ValidationError):
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if holds_surrogates(text) and msgspec.json.decode(masked(text), type=msgspec.Raw):
                return "it holds half a surrogate pair (an emoji that was cut in two?): send it whole"
    return str(error)


def members(text: bytes, most: int = FEW) -> dict[str, bytes]:
    """Returns the members of an object, byte for byte as they were sent. An unpaired surrogate in a name is kept.

    Raises:
        TooManyError: there are more than `most`.
        TwiceError: two have the same name.
        msgspec.DecodeError: the text is not an object.
    """
    readable = masked(text)
    known = msgspec.json.decode(readable, type=dict[str, msgspec.Raw])
    if len(known) > most:
        raise TooManyError(f"there are {len(known)}")
    found: dict[str, bytes] = {}
    seen: set[str] = set()
    name = ""
    position = readable.index(b"{") + 1
    while key := _KEY.match(readable, position):
        name, start = msgspec.json.decode(key[1], type=str), key.end()
        value = known.get(name)
        # `known` has the last value of a repeated name. For an earlier one the positions would not match.
        if name in seen or value is None or not readable.startswith(value, start):
            raise TwiceError(name)
        seen.add(name)
        position = start + memoryview(value).nbytes
        sent = text[key.start(1) : key.end(1)]
        found[name if sent == key[1] else json.loads(sent)] = text[start:position]
    if not _END.match(readable, position):
        raise TwiceError(name)
    return found


def elements(array: bytes, most: int, longest: int) -> list[bytes]:
    """Returns the elements of an array, byte for byte as they were sent. The text must be JSON, except for unpaired
    surrogates. `longest` bounds how much of the text is matched at a time.

    Raises:
        TooManyError: there are more than `most`.
        msgspec.ValidationError: the text is not an array.
    """
    if array.count(b",") >= max(most, FEW) and array.lstrip()[:1] == b"[":
        _count(array, most, longest)
    try:
        parts = msgspec.json.decode(array, type=list[msgspec.Raw])
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        if not holds_surrogates(array):
            raise
        parts = msgspec.json.decode(masked(array), type=list[msgspec.Raw])
    if len(parts) > most:
        raise TooManyError(f"there are {len(parts)}")
    return _sent(array, parts)


def _sent(array: bytes, parts: list[msgspec.Raw]) -> list[bytes]:
    """Cuts the same elements out of the original text."""
    found = []
    position = array.find(b"[") + 1
    for part in parts:
        start = _BETWEEN.match(array, position).end()  # type: ignore[union-attr]  # it also matches an empty string
        position = start + memoryview(part).nbytes
        found.append(array[start:position])
    return found


def _count(array: bytes, most: int, longest: int) -> None:
    """Raises TooManyError for a long array, without creating an object for each element."""
    element = _element()
    position = array.index(b"[") + 1
    for number in range(most):
        found = element.match(array, position, position + longest + 1024)
        if found is None:
            long = f"number {number} is longer than {longest} bytes"
            raise TooManyError(f"{long}, or nested deeper than {MAX_LINE_DEPTH} levels")
        position = found.end()
        if array[position - 1 : position] == b"]":
            return
    raise TooManyError(f"there are more than {most}")


@cache
def _element() -> re.Pattern[bytes]:
    """A pattern for one element of an array, with its delimiter. Nested brackets match in one pass, without
    backtracking.
    """
    inside = rb'(?:[^][{}"]++|' + _STRING + rb")*+"
    for _ in range(MAX_LINE_DEPTH):
        inside = rb'(?:[^][{}"]++|' + _STRING + rb"|[\[{]" + inside + rb"[\]}])*+"
    value = rb'(?:[^][{}",]++|' + _STRING + rb"|[\[{]" + inside + rb"[\]}])*+"
    return re.compile(value + rb"[,\]]", re.DOTALL)
