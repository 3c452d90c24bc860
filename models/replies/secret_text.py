"""API keys and values of headers in the answers of servers, which may repeat what they were sent."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain, islice

import msgspec

Secrets = tuple[str, ...]  # no other sequence: a text would be taken for its characters

SHORTEST = 8
"""Shorter keys, such as `x` or `none`, are placeholders for servers that need no key. They occur in ordinary text."""
_CUT = "[API key]"
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
    """Remove the secrets, also as JSON has them, and beginnings of them with at least `SHORTEST` characters: the text
    may have been shortened. Nothing is left of a text with many beginnings.
    """
    forms = {form for secret in secrets if len(secret) >= SHORTEST for form in (secret, _in_json(secret))}
    found = [*islice(chain.from_iterable(_beginnings(text, form) for form in forms), _MOST_CUTS + 1)]
    if len(found) > _MOST_CUTS:
        return _CUT
    left, end = list[str](), 0
    for start, stop in sorted(found):
        if start >= end:
            left += [text[end:start], _CUT]
        end = max(end, stop)  # they may overlap
    return "".join([*left, text[end:]])


def _beginnings(text: str, form: str) -> Iterator[tuple[int, int]]:
    """Where the text has the form of a secret, or a beginning of it: from and to where."""
    sizes = range(SHORTEST, len(form) + 1)
    start = text.find(form[:SHORTEST])
    while start >= 0:
        yield start, start + SHORTEST - 1 + bisect_left(sizes, True, key=lambda n: not text.startswith(form[:n], start))
        start = text.find(form[:SHORTEST], start + 1)


def _in_json(secret: str) -> str:
    return msgspec.json.encode(secret).decode()[1:-1]
