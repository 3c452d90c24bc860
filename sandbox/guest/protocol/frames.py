"""The messages of host, supervisor and children, and their bounds.

Frames travel between host and supervisor. Records travel from children through the supervisor to the host. Both have
fixed headers, and their sizes are checked before anything is allocated, because a record may come from a process that a
completion controls. Neither names the completion that it belongs to: the supervisor and the host count.
"""

from collections.abc import Iterable
from struct import Struct, error
from typing import NamedTuple

from gradebox.score import GROUP_BYTES, MOST_VALUES, NAME_CHARACTERS, is_name

FRAME = Struct("!BI")  # kind, bytes of the payload
MAX_REPLY = 1 << 20  # no frame of the guest is longer

# host to guest. SHARE and RESET carry the descriptor of new shared memory, if there is any. GRADE has the number of
# lines, their number of bytes, and the lines; GRADE_SHARED has no lines, because they are in the shared memory.
# FILTER comes first, and only if the sandbox's backend could not install the whole seccomp program itself.
LOAD, GRADE, RESET, SHARE, GRADE_SHARED, FILTER = 1, 2, 3, 4, 5, 6
# guest to host
READY, CHECK, LOADED, NOT_LOADED, RECORDS, DONE, TAINTED, ORPHANED = range(16, 24)
STOPPED = b"\1"  # the payload of NOT_LOADED if loading ended, or took too long, before a check reported its failure

AUTO, BATCH, COMPLETION = 0, 1, 2

SCORED, EXCEPTION, BAD_RETURN, TIMEOUT, MEMORY, CRASH, BAD_INPUT, MODEL, NOT_APPLICABLE, ASKED = range(1, 11)
NO_COMPLETION = 0x80  # ORed into a kind: the thread does not end with a turn of the assistant

RECORD = Struct("<IdII")  # run time in µs, score, bytes of fields, MARK | kind
MOST_MICROS = 0xFFFFFFFF
ELSEWHERE = 0  # the kind of a slot whose record is sent through the pipe
# Without the mark, bytes that a completion writes to every descriptor it finds could be read as a score, e.g. 0.0. The
# mark is no secret: code that a grader runs in its own process can always forge its own score, and no other.
MARK = 0x9BC5A700
_MARK_BYTES = MARK.to_bytes(4, "little")
_LENGTH = Struct("<12xI4x")  # reads only the bytes of fields from a record's head
COUNT = Struct("!I")  # records in one frame
FIELD = Struct("<BI")  # tag, length
# tags of fields; 1 and 2 were ids and are unused
REASON, MESSAGE, TRACE, STDOUT, VALUES, DETAILS, CAUSE, REPLY, REQUESTS, SCORES = range(3, 13)
_INFINITY = float("inf")
_CONTROLS = frozenset(range(32))
VALUE = Struct("<dH")  # a number, and the bytes of its name; the name follows
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
# Precedes each line of a grader that asks, after the known answers. JSON cannot contain it.
ANSWERED = b"\x1e"
REQUEST = Struct("<I")  # the bytes of one ask; the ask follows


class Malformed(Exception):
    """Bytes that are no record, so our code did not write them."""


class GraderLimits(NamedTuple):
    """The limits of a grader, set by the host and enforced by the guest. LOAD carries them."""

    isolation: int
    timeout_ms: int
    load_ms: int
    memory_bytes: int
    processes: int
    open_files: int
    file_bytes: int
    stack_bytes: int
    scratch_files: int
    stdout_bytes: int
    text_bytes: int
    details_bytes: int
    line_bytes: int
    depth: int
    keep_unknown: int
    has_packages: int


CHUNK = Struct("!II")  # lines, bytes
LIMITS = Struct("!BIIQ12I")


class CheckResult(NamedTuple):
    """The result of one check, as it is sent. `number` counts from 0 in the order of the checks."""

    number: int
    passed: bool
    line: int
    column: int
    micros: int
    message: str
    trace: str


CHECK_HEAD = Struct("!B?IIIII")
_LOADED_HEAD = Struct("!?H")  # whether the grader grades groups; the bytes of the names that it asks, one a line


def pack_loaded(asks: Iterable[str], warnings: bytes, groups: bool = False) -> bytes:
    """Packs the description of a loaded grader. It is sent after the isolation."""
    named = "\n".join(asks).encode()
    return _LOADED_HEAD.pack(groups, len(named)) + named + warnings


def unpack_loaded(data: bytes) -> tuple[list[str], list[str], bool]:
    """Unpacks the names that a grader asks, its warnings, and whether it grades groups.

    Raises:
        Malformed: the lengths do not add up.
    """
    start = _LOADED_HEAD.size
    groups, length = _LOADED_HEAD.unpack_from(data) if len(data) >= start else (False, len(data))
    end = start + length
    if end > len(data):
        raise Malformed("what a grader asks does not add up")
    asks, warnings = (part.decode("utf-8", "replace") for part in (data[start:end], data[end:]))
    return [line for line in asks.split("\n") if line], [line for line in warnings.split("\n") if line], groups


def pack_check(check: CheckResult) -> bytes:
    """Packs one check. Its texts are cut to what a frame may hold."""
    message = encode(check.message, MAX_TEXT)
    trace = encode(check.trace, MAX_TEXT)
    head = CHECK_HEAD.pack(check.number, check.passed, check.line, check.column, check.micros, len(message), len(trace))
    return head + message + trace


def unpack_check(payload: bytes) -> CheckResult:
    """Unpacks the output of `pack_check`.

    Raises:
        Malformed: the lengths do not add up, or there is no check of this number.
    """
    try:
        number, passed, line, column, micros, message_length, trace_length = CHECK_HEAD.unpack_from(payload)
    except error as problem:
        raise Malformed("a check without a head") from problem
    if number > 3 or len(payload) != CHECK_HEAD.size + message_length + trace_length:
        raise Malformed("a check whose lengths do not add up")
    message = payload[CHECK_HEAD.size : CHECK_HEAD.size + message_length]
    trace = payload[CHECK_HEAD.size + message_length :]
    return CheckResult(
        number, passed, line, column, micros, message.decode("utf-8", "replace"), trace.decode("utf-8", "replace")
    )


class Records(NamedTuple):
    """Whole records in two columns: all heads, then all fields, both in the same order."""

    heads: bytes
    bodies: bytes

    @property
    def number(self) -> int:
        """The number of records."""
        return len(self.heads) // RECORD.size


def pack_fields(fields: list[tuple[int, bytes]]) -> bytes:
    """Packs the fields of one record, which must be within `MAX_FIELD`."""
    body = b""
    for tag, value in fields:
        body += FIELD.pack(tag, len(value)) + value
    return body


def pack_record(kind: int, micros: int, score: float, fields: list[tuple[int, bytes]]) -> bytes:
    """Packs one outcome. Fields must be within `MAX_FIELD`."""
    body = pack_fields(fields)
    return RECORD.pack(min(micros, MOST_MICROS), score, len(body), MARK | kind) + body


def pack_records(records: Records) -> bytes:
    """Packs the payload of a frame. It must be within `MAX_REPLY`."""
    return COUNT.pack(records.number) + records.heads + records.bodies


def unpack_records(payload: bytes) -> Records:
    """Unpacks the output of `pack_records`.

    Raises:
        Malformed: these are no records, or their lengths do not add up.
    """
    if len(payload) < COUNT.size:
        raise Malformed("records without their number")
    (count,) = COUNT.unpack_from(payload)
    end = COUNT.size + count * RECORD.size
    heads, bodies = payload[COUNT.size : end], payload[end:]
    if len(heads) != count * RECORD.size or length_of_bodies(heads) != len(bodies):
        raise Malformed("records whose lengths do not add up")
    return Records(heads, bodies)


def length_of_bodies(heads: bytes) -> int:
    """The number of bytes that the fields of these records take.

    Raises:
        Malformed: a head lacks the mark.
    """
    size = RECORD.size
    if any(heads[16 + offset :: size].strip(_MARK_BYTES[offset : offset + 1]) for offset in (1, 2, 3)):
        raise Malformed("these bytes are no record")
    if not any(heads[offset::size].strip(b"\0") for offset in (12, 13, 14, 15)):
        return 0  # faster than unpacking each head
    return sum(length for (length,) in _LENGTH.iter_unpack(heads))


def split_records(records: Records, first: int) -> tuple[Records, Records]:
    """Splits off the first records.

    Raises:
        Malformed: a head lacks the mark.
    """
    heads = records.heads[: first * RECORD.size]
    length = length_of_bodies(heads)
    return Records(heads, records.bodies[:length]), Records(records.heads[len(heads) :], records.bodies[length:])


def put_before_output(record: Records, printed: bytes, most: dict[int, int]) -> Records:
    """Puts `printed` before the output in one record. What exceeds the bound of the field is cut off.

    Raises:
        Malformed: its fields are none, or exceed their bounds.
    """
    fields = unpack_fields(record.bodies, most)
    fields[STDOUT] = (printed + fields.get(STDOUT, b""))[: most[STDOUT]]
    body = pack_fields(list(fields.items()))
    micros, score, _, kind = RECORD.unpack(record.heads)
    return Records(RECORD.pack(micros, score, len(body), kind), body)


def read_records(data: bytes | bytearray) -> tuple[Records, int]:
    """Reads the whole records at the start of `data`, where each head is followed by its fields.

    Returns:
        the records, and the number of bytes that they take.

    Raises:
        Malformed: these are no records.
    """
    size = RECORD.size
    heads, bodies = [], []
    position = 0
    while position + size <= len(data):
        end = position + record_length(data, position)
        if end > len(data):
            break
        heads.append(data[position : position + size])
        bodies.append(data[position + size : end])
        position = end
    return Records(b"".join(heads), b"".join(bodies)), position


def record_length(data: bytes | bytearray, position: int) -> int:
    """The number of bytes of the record whose head is at `position`.

    Raises:
        Malformed: the bytes there are no record.
    """
    _, _, length, kind = RECORD.unpack_from(data, position)
    if kind & ~0xFF != MARK or length > MAX_FIELDS:
        raise Malformed("these bytes are no record")
    return RECORD.size + int(length)


def most_of_fields(limits: GraderLimits) -> dict[int, int]:
    """The bound of each field in bytes, by its tag, under these limits."""
    texts = dict.fromkeys((REASON, MESSAGE, TRACE, REPLY), limits.text_bytes)
    return {**MAX_FIELD, STDOUT: limits.stdout_bytes, DETAILS: limits.details_bytes, **texts}


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
