"""Replies that are kept, so that an equal ask is not paid for twice. The script `count_ask` stores and finds them."""

import hashlib
import zlib
from typing import NamedTuple

import msgspec

_LONGEST_REPLY = 8 << 20  # bytes, uncompressed
_KEPT_AS = b"3"  # so that replies of earlier releases are not found: these also kept what would not be read today


class Keeping(NamedTuple):
    """The bytes of replies that are kept per project, and for how long."""

    bytes: int
    seconds: int


def digest(*settings: object, request: bytes) -> bytes:
    """The digest that a reply is kept under: a hash of the request and of the settings it is made with."""
    hashed = hashlib.sha256(_KEPT_AS + msgspec.msgpack.encode(settings))
    hashed.update(request)
    return hashed.digest()[:20]


def packed(reply: bytes) -> bytes:
    """A reply as it is kept."""
    return zlib.compress(reply, 1)


def unpacked(reply: bytes) -> bytes:
    """A kept reply."""
    return zlib.decompressobj().decompress(reply, _LONGEST_REPLY)
