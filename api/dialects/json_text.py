"""Texts in JSON that was sent, which is cut and not parsed."""

import json
import re

# Half of a pair of surrogates, a control character and what is ASCII stay as they were escaped.
_ESCAPE = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|\\u([0-9a-f]{4})|\\.", re.IGNORECASE)


def is_text(value: bytes) -> bool:
    """Whether this value is a string."""
    return value[:1] == b'"'


def text_of(value: bytes) -> bytes:
    """A string, as it was sent; what is none, as a string of its JSON, with letters in place of their escapes: clients
    escape what is not ASCII, or do not.

    Raises:
        UnicodeDecodeError: it is not UTF-8.
    """
    return value if is_text(value) else json.dumps(_ESCAPE.sub(_letter, value.decode())).encode()


def _letter(escape: re.Match[str]) -> str:
    if escape[1]:
        return bytes.fromhex(escape[1] + escape[2]).decode("utf-16-be")
    code = int(escape[3] or "0", 16)
    return chr(code) if code >= 0xA0 and not 0xD800 <= code <= 0xDFFF else escape[0]
