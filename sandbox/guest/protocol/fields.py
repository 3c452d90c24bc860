"""The fields of a record, such as its reason and its printed text, and their bounds.

The host checks sizes before anything is allocated, because a record may come from a process that a completion controls.
"""

from collections.abc import Iterable
from struct import Struct

from gradebox.score import GROUP_BYTES, MOST_VALUES, NAME_CHARACTERS, is_name
from sandbox.guest.protocol.grader_limits import GraderLimits

FIELD = Struct("<BI")  # tag, length
# tags of fields; 1 and 2 were ids and are unused
REASON, MESSAGE, TRACE, STDOUT, VALUES, DETAILS, CAUSE, REPLY, REQUESTS, SCORES = range(3, 13)
VALUE = Struct("<dH")  # a number, and the bytes of its name; the name follows
REQUEST = Struct("<I")  # the bytes of one ask; the ask follows
MAX_TEXT = 16384
MAX_STDOUT = 65536
MAX_DETAILS = 1 << 18  # `GraderLimits.details_bytes` is usually far less
MAX_VALUES = MOST_VALUES * (VALUE.size + 4 * NAME_CHARACTERS)
MAX_CAUSE = 32  # the kind of a `ModelError`, after one byte: whether it is retryable
MAX_REQUESTS = 1 << 19  # of the asks sent together: the next run sends the remaining ones
SCORE_BYTES = 40 << 10  # average for each score of a group: no more than outcomes of single completions take
MAX_FIELD = {
    **dict.fromkeys((REASON, MESSAGE, TRACE, REPLY), MAX_TEXT),
    STDOUT: MAX_STDOUT,
    VALUES: MAX_VALUES,
    DETAILS: MAX_DETAILS,
    CAUSE: MAX_CAUSE,
    REQUESTS: MAX_REQUESTS,
    SCORES: GROUP_BYTES,
}
# A run ends with asks or with scores, so no record has both.
MAX_FIELDS = sum(MAX_FIELD.values()) - min(MAX_REQUESTS, GROUP_BYTES) + len(MAX_FIELD) * FIELD.size

_INFINITY = float("inf")
_CONTROLS = frozenset(range(32))


class Malformed(Exception):
    """Bytes that are no record, so our code did not write them."""


def pack_fields(fields: list[tuple[int, bytes]]) -> bytes:
    """Packs the fields of one record, which must be within `MAX_FIELD`."""
    body = b""
    for tag, value in fields:
        body += FIELD.pack(tag, len(value)) + value
    return body


def unpack_fields(body: bytes, most: dict[int, int]) -> dict[int, bytes]:
    """Unpacks the fields of one record, each within its bound.

    Raises:
        Malformed: an unknown or repeated tag, a field over its bound, or lengths that do not add up.
    """
    fields: dict[int, bytes] = {}
    position, end = 0, len(body)
    while position < end:
        start = position + FIELD.size
        if start > end:
            raise Malformed("a field without a head")
        tag, length = FIELD.unpack_from(body, position)
        position = start + length
        if tag in fields or length > most.get(tag, -1) or position > end:
            raise Malformed(f"field {tag} of {length} bytes")
        fields[tag] = body[start:position]
    return fields


def most_of_fields(limits: GraderLimits) -> dict[int, int]:
    """The bound of each field in bytes, by its tag, under these limits."""
    texts = dict.fromkeys((REASON, MESSAGE, TRACE, REPLY), limits.text_bytes)
    return {**MAX_FIELD, STDOUT: limits.stdout_bytes, DETAILS: limits.details_bytes, **texts}


def pack_values(values: dict[str, float]) -> bytes:
    """Packs the named values of a score into a field."""
    packed = b""
    for name, number in values.items():
        data = name.encode()
        packed += VALUE.pack(number, len(data)) + data
    return packed


def unpack_values(data: bytes) -> dict[str, float]:
    """Unpacks the output of `pack_values`.

    Raises:
        Malformed: there are too many, a name is invalid or repeated, a number is not finite, or lengths do not add up.
    """
    values: dict[str, float] = {}
    position = 0
    while position < len(data):
        start = position + VALUE.size
        if start > len(data) or len(values) == MOST_VALUES:
            raise Malformed("a value without a head, or one too many")
        number, length = VALUE.unpack_from(data, position)
        position = start + length
        try:
            name = data[start:position].decode()
        except UnicodeDecodeError as problem:
            raise Malformed("a value whose name is not UTF-8") from problem
        if position > len(data) or not is_name(name) or name in values or not -_INFINITY < number < _INFINITY:
            raise Malformed("a value that is none")
        values[name] = number
    return values


def most_of_scores(count: int) -> int:
    """The bound in bytes of the field of scores for `count` threads."""
    return min(GROUP_BYTES, SCORE_BYTES * count)


def pack_requests(requests: Iterable[bytes]) -> bytes:
    """Packs asks into a field, as many of them as it may hold."""
    packed = b""
    for request in requests:
        if len(packed) + REQUEST.size + len(request) > MAX_REQUESTS:
            break
        packed += REQUEST.pack(len(request)) + request
    return packed


def unpack_requests(data: bytes) -> list[bytes]:
    """Unpacks the output of `pack_requests`.

    Raises:
        Malformed: there is no ask, lengths do not add up, or an ask is empty or has a control character, which would
            break its line.
    """
    requests: list[bytes] = []
    position = 0
    while position < len(data):
        start = position + REQUEST.size
        if start > len(data):
            raise Malformed("an ask without a head")
        (length,) = REQUEST.unpack_from(data, position)
        position = start + length
        request = data[start:position]
        if position > len(data) or not request or _CONTROLS.intersection(request):
            raise Malformed("an ask that is none")
        requests.append(request)
    if not requests:
        raise Malformed("asks, and there is none")
    return requests


def encode(text: str, limit: int) -> bytes:
    """Encodes as UTF-8 of at most `limit` bytes. A longer text is cut between characters and ends with an ellipsis."""
    data = text[:limit].encode("utf-8", "backslashreplace")
    if len(data) <= limit and len(text) <= limit:
        return data
    return data[: limit - 3].decode("utf-8", "ignore").encode() + "…".encode()
