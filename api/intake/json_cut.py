"""Cuts texts of JSON into their members and elements. What is inside of them stays as it was sent, unparsed.

msgspec refuses a whole text for one half surrogate pair, such as an emoji that was cut in two leaves. They are legal
JSON, and what they mean is for the sandbox to say. So a text that holds one is read as a copy of the same length in
which every escape of a surrogate is one of another character, and its parts are cut out of the text that was sent.
"""

import json
import re
from functools import cache

import msgspec

DEPTH = 201  # as deep as sandboxes read a thread
FEW = 250_000  # parts, which may be held as objects before they are counted: some 20 MB

_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_KEY = re.compile(rb"[ \t\r\n,]*+(" + _STRING + rb")[ \t\r\n]*+:[ \t\r\n]*+", re.DOTALL)
_END = re.compile(rb"[ \t\r\n]*+\}")
_BETWEEN = re.compile(rb"[ \t\r\n,]*+")


class TooManyError(Exception):
    """An array or an object has more parts than it may have, or one that is too long or too deep to be counted."""


class TwiceError(Exception):
    """An object has two members of one name, of which only one can be meant."""


def holds_surrogates(text: bytes) -> bool:
    """Whether there may be an escape of a surrogate in it, half of a pair or not."""
    return b"\\ud" in text or b"\\uD" in text


def masked(text: bytes) -> bytes:
    """A text of the same length and structure that holds no surrogates. Its strings are others."""
    return text.replace(b"\\ud", b"\\ue").replace(b"\\uD", b"\\ue")


def members(text: bytes, most: int = FEW) -> dict[str, bytes]:
    """The members of an object, byte for byte as they were sent. Half a pair of surrogates in a name stays one.

    Raises:
        TooManyError: there are more than `most`.
        TwiceError: two have the same name.
        msgspec.DecodeError: the text is no object.
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
        # The value that is known is the last of its name. Where this is another one, the places would not fit.
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
    """The elements of an array, byte for byte as they were sent. The text must be JSON, half pairs aside.

    `longest` bounds how much of the text is looked at in one go.

    Raises:
        TooManyError: there are more than `most`.
        msgspec.ValidationError: the text is no array.
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
    """The same elements of the text that was sent."""
    found = []
    position = array.find(b"[") + 1
    for part in parts:
        start = _BETWEEN.match(array, position).end()  # type: ignore[union-attr]  # it matches nothing, too
        position = start + memoryview(part).nbytes
        found.append(array[start:position])
    return found


def _count(array: bytes, most: int, longest: int) -> None:
    """Raises TooManyError, before there is an object for each element."""
    element = _element()
    position = array.index(b"[") + 1
    for number in range(most):
        found = element.match(array, position, position + longest + 1024)
        if found is None:
            raise TooManyError(f"number {number} is longer than {longest} bytes, or nested deeper than {DEPTH} levels")
        position = found.end()
        if array[position - 1 : position] == b"]":
            return
    raise TooManyError(f"there are more than {most}")


@cache
def _element() -> re.Pattern[bytes]:
    """One element of an array, with what ends it. Brackets are matched without going back, in one pass."""
    inside = rb'(?:[^][{}"]++|' + _STRING + rb")*+"
    for _ in range(DEPTH):
        inside = rb'(?:[^][{}"]++|' + _STRING + rb"|[\[{]" + inside + rb"[\]}])*+"
    value = rb'(?:[^][{}",]++|' + _STRING + rb"|[\[{]" + inside + rb"[\]}])*+"
    return re.compile(value + rb"[,\]]", re.DOTALL)
