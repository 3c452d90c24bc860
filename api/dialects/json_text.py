"""Texts in JSON that was sent, which is cut and not parsed otherwise."""

import json


def is_text(value: bytes) -> bool:
    """Whether this value is a string."""
    return value[:1] == b'"'


def text_of(value: bytes) -> bytes:
    """A string, as it was sent; what is none, as a string of its JSON: the same, however its letters were escaped.

    Raises:
        RecursionError: it is nested too deep.
    """
    if is_text(value):
        return value
    return json.dumps(json.dumps(json.loads(value), ensure_ascii=False)).encode()
