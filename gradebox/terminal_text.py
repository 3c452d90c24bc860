"""Text of people, models and graders, as a terminal may get it."""

_BIDIRECTIONAL = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_CONTROLS = [chr(code) for code in [*range(32), *range(127, 160), 0x2028, 0x2029]]
_HIDDEN = [*_CONTROLS, *_BIDIRECTIONAL]  # what moves the cursor, colours, or shows letters in another order
_VISIBLE = {ord(one): repr(one)[1:-1] for one in _HIDDEN if one not in "\n\t"}
_IN_JSON = {ord(one): f"\\u{ord(one):04x}" for one in _HIDDEN if one not in "\n\t"}


def plain(text: str) -> str:
    """The text with its control characters made visible, also those that reorder letters."""
    return text.translate(_VISIBLE).encode("utf-8", "backslashreplace").decode()


def plain_json(text: bytes | bytearray) -> bytes:
    """The same JSON with escapes for such characters."""
    return text.decode("utf-8", "surrogatepass").translate(_IN_JSON).encode("utf-8", "surrogatepass")
