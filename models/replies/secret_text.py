"""API keys and values of headers in the answers of servers, which may repeat what they were sent."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

Secrets = tuple[str, ...]  # no other sequence: a text would be taken for its characters

SHORTEST = 8
"""Shorter keys, such as `x` or `none`, are placeholders for servers that need no key. They occur in ordinary text."""
_CUT = "[API key]"
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)  # secrets have none of the others, such as \n
_LEVELS = 3  # of JSON: a proxy reports an error as a string
_MOST_CUTS = 500  # beginnings of secrets that are looked for in one text


def repeats(body: bytes, secrets: Secrets) -> bool:
    """Return whether this JSON, as msgspec encodes it, contains one of the secrets."""
    return any(len(secret) >= SHORTEST and _in_json(secret).encode() in body for secret in secrets)


def without(text: str, secrets: Secrets) -> str:
    """Remove the secrets from a text for people."""
    for secret in secrets:
        text = text.replace(secret, _CUT) if len(secret) >= SHORTEST else text
    return text


def without_parts(text: str, secrets: Secrets) -> str:
    """Remove the secrets, also from JSON in JSON, and beginnings of them with at least `SHORTEST` characters: the text
    may have been shortened. Nothing is left of a text with many beginnings.
    """
    found = [*islice(_found(text, [secret for secret in secrets if len(secret) >= SHORTEST]), _MOST_CUTS + 1)]
    if len(found) > _MOST_CUTS:
        return _CUT
    left, end = list[str](), 0
    for start, stop in sorted(found):
        if start >= end:
            left += [text[end:start], _CUT]
        end = max(end, stop)  # they may overlap
    return "".join([*left, text[end:]])


def _found(text: str, secrets: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where the text has beginnings of secrets, as they are or as strings of JSON have them: from and to where."""
    places: Sequence[int] = range(len(text) + 1)
    for _ in range(_LEVELS):
        for secret in secrets:
            yield from ((places[start], places[stop]) for start, stop in _beginnings(text, secret))
        if "\\" not in text:
            return
        text, within = _unescaped(text)
        places = [places[one] for one in within]


def _unescaped(text: str) -> tuple[str, list[int]]:
    """Read the escapes of JSON. Return the text, and where each of its characters, and its end, is in the given one."""
    read, places, end = list[str](), list[int](), 0
    for escape in _ESCAPE.finditer(text):
        read += [text[end : escape.start()], chr(int(escape[1], 16)) if escape[1] else escape[2]]
        places += range(end, escape.start() + 1)
        end = escape.end()
    return "".join([*read, text[end:]]), [*places, *range(end, len(text) + 1)]


def _beginnings(text: str, secret: str) -> Iterator[tuple[int, int]]:
    sizes, start = range(SHORTEST, len(secret) + 1), text.find(secret[:SHORTEST])
    while start >= 0:
        size = bisect_left(sizes, True, key=lambda size: not text.startswith(secret[:size], start))
        yield start, start + sizes[size - 1]
        start = text.find(secret[:SHORTEST], start + 1)


def _in_json(secret: str) -> str:
    return msgspec.json.encode(secret).decode()[1:-1]
