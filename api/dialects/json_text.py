"""Converts parts of JSON texts to strings without parsing them."""

import json
import re

# Escapes of unpaired surrogates, control characters and ASCII stay as they are.
_ESCAPE = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|\\u([0-9a-f]{4})|\\.", re.IGNORECASE)


def is_text(value: bytes) -> bool:
    """Whether this value is a string."""
    return value[:1] == b'"'


def text_of(value: bytes) -> bytes:
    """Returns a string as it was sent. Another value becomes a string of its JSON, with escapes of letters decoded,
    because some clients escape non-ASCII characters and others do not.

    Raises:
        UnicodeDecodeError: it is not UTF-8.
    """
    return value if is_text(value) else json.dumps(_ESCAPE.sub(_letter, value.decode())).encode()


def object_of(members: dict[str, bytes]) -> bytes:
    """Returns an object of members that are JSON."""
    return b"{%b}" % b",".join(b"%b:%b" % (json.dumps(name).encode(), value) for name, value in members.items())


def _letter(escape: re.Match[str]) -> str:
    if escape[1]:
        return bytes.fromhex(escape[1] + escape[2]).decode("utf-16-be")
    code = int(escape[3] or "0", 16)
    return chr(code) if code >= 0xA0 and not 0xD800 <= code <= 0xDFFF else escape[0]
