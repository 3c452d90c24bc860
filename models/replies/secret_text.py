"""API keys in the answers of servers, which may repeat the key that they were sent."""

import msgspec

SHORTEST = 8
"""Shorter keys, such as `x` or `none`, are placeholders for servers that need no key. They occur in ordinary text."""
_CUT = "[API key]"


def repeats(body: bytes, secret: str) -> bool:
    """Return whether this JSON, as msgspec encodes it, contains the secret."""
    return len(secret) >= SHORTEST and msgspec.json.encode(secret)[1:-1] in body


def without(text: str, secret: str) -> str:
    """Remove the secret from a text for people."""
    return text.replace(secret, _CUT) if len(secret) >= SHORTEST else text


def without_parts(text: str, secret: str) -> str:
    """Remove the secret, and beginnings of it with at least `SHORTEST` characters: the text may have been shortened."""
    for size in range(len(secret), SHORTEST - 1, -1):
        if secret[:size] in text:
            text = text.replace(secret[:size], _CUT)
    return text
