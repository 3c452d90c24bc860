"""The file format of an index of one grader's outcomes. A header is followed by columns of little-endian numbers, with
`rows` entries each unless noted:

    scores      f8, the scores in ascending order: `scored` entries
    by_score    u4, the rows in that order: `scored` entries
    by_run_ms   u4, the rows from the shortest run to the longest
    places      u4 twice: where the lines of outcome and thread end in their chunk
    classes     u1, the class of each row: a kind of missing score, or a bucket of scores
    run_classes u1, the same in the order of `by_run_ms`
    errors      bytes: the groups of errors, as they are returned

So a filter is a search for bytes, and a range of scores is some whole buckets and at most two partial ones.
"""

import struct
from typing import Literal, TypeAlias, get_args

import msgspec

from gradebox.outcome import ErrorKind

MAGIC = b"gbindex1"
HEAD_BYTES = 16 * 1024
KINDS = ("not_applicable", *get_args(ErrorKind))
FIRST_BUCKET = 32
MOST_BUCKETS = 256 - FIRST_BUCKET
_LENGTH = struct.Struct("<8sI")

Column: TypeAlias = Literal["scores", "by_score", "by_run_ms", "places", "classes", "run_classes", "errors"]


class Bucket(msgspec.Struct, array_like=True):
    """Scores from `low` to `high`, both of which occur; `start` is the position of the first one in score order."""

    low: float
    high: float
    start: int


class Head(msgspec.Struct):
    """The header of an index.

    Attributes:
        kinds: the class of each kind of missing score.
        buckets: in ascending order; their classes count up from `FIRST_BUCKET`.
        error_bytes: the length of the column `errors`.
    """

    rows: int
    scored: int
    kinds: dict[str, int]
    buckets: list[Bucket]
    error_bytes: int

    @property
    def lengths(self) -> dict[Column, int]:
        """The bytes of each column, in file order."""
        rows, scored = self.rows, self.scored
        return {
            "scores": 8 * scored,
            "by_score": 4 * scored,
            "by_run_ms": 4 * rows,
            "places": 8 * rows,
            "classes": rows,
            "run_classes": rows,
            "errors": self.error_bytes,
        }

    def pack(self) -> bytes:
        """The header as it is in the file."""
        packed = msgspec.msgpack.encode(self)
        return (_LENGTH.pack(MAGIC, len(packed)) + packed).ljust(HEAD_BYTES, b"\0")


def unpack(data: bytes) -> Head:
    """Reads the result of `Head.pack`. Raises ValueError if the data is not an index."""
    magic, length = _LENGTH.unpack_from(data)
    if magic != MAGIC:
        raise ValueError(f"an index begins with {magic!r}, and not with {MAGIC!r}")
    return msgspec.msgpack.decode(data[_LENGTH.size : _LENGTH.size + length], type=Head)
