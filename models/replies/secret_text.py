"""API keys and values of headers in the answers of servers, which may repeat what they were sent."""

from bisect import bisect_left

import msgspec

Secrets = tuple[str, ...]  # no other sequence: a text would be taken for its characters

SHORTEST = 8
"""Shorter keys, such as `x` or `none`, are placeholders for servers that need no key. They occur in ordinary text."""
_CUT = "[API key]"
_MOST_CUTS = 16


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
    forms = {form for secret in secrets for form in (secret, _in_json(secret))}
    for _ in range(_MOST_CUTS):
        # The longest of all, because a shorter one may be the beginning of another secret too, whose rest would stay.
        longest = max((_beginning_in(text, form) for form in forms), key=len, default="")
        if not longest:
            return text
        text = text.replace(longest, _CUT)
    return _CUT


def _beginning_in(text: str, secret: str) -> str:
    """The longest beginning of the secret that the text has; empty if it would be shorter than `SHORTEST`."""
    sizes = range(SHORTEST, len(secret) + 1)
    found = bisect_left(sizes, True, key=lambda size: secret[:size] not in text)
    return secret[: sizes[found - 1]] if found else ""


def _in_json(secret: str) -> str:
    return msgspec.json.encode(secret).decode()[1:-1]
