"""Records: one outcome each, from a child through the supervisor to the host.

A record does not name the completion that it belongs to: the supervisor and the host count.
"""

from struct import Struct
from typing import NamedTuple

from sandbox.guest.protocol.fields import MAX_FIELDS, STDOUT, Malformed, pack_fields, unpack_fields

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


class Records(NamedTuple):
    """Whole records in two columns: all heads, then all fields, both in the same order."""

    heads: bytes
    bodies: bytes

    @property
    def number(self) -> int:
        """The number of records."""
        return len(self.heads) // RECORD.size


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
