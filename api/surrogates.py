"""Half surrogate pairs in JSON, such as an emoji that was cut in two leaves. They are legal JSON, and what they mean
is for the sandbox to say; but msgspec refuses the whole body for one, so they are hidden from it and put back.
"""

import re
from collections.abc import Iterator, Mapping

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_PRIVATE_USE = range(0xE000, 0xF900)

Hidden = Mapping[bytes, bytes]
"""The escapes that stand for surrogates, and those they stand for."""


def hide(body: bytes) -> tuple[bytes, Hidden]:
    """The body with each escape of a surrogate replaced by one of a character that it does not hold."""
    unused = _unused(body)
    stand_ins = dict(zip(set(_SURROGATE.findall(body)), unused, strict=False))
    masked = _SURROGATE.sub(lambda found: stand_ins.get(found[0], found[0]), body)
    return masked, {stand_in: escape for escape, stand_in in stand_ins.items()}


def restore(part: bytes, hidden: Hidden) -> bytes:
    """A part of a body that was masked, byte for byte as it was sent."""
    if not hidden:
        return part
    return re.sub(b"|".join(map(re.escape, hidden)), lambda found: hidden[found[0]], part)


def _unused(body: bytes) -> Iterator[bytes]:
    escapes = (b"\\u%04x" % character for character in _PRIVATE_USE)
    return (escape for escape in escapes if escape not in body)
