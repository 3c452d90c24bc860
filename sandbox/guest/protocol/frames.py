"""Frames: the messages between host and supervisor, with fixed heads and bounded sizes.

See `records.py` for what the frame RECORDS has, and `grader_limits.py` for what precedes the source in LOAD.
"""

from collections.abc import Iterable
from struct import Struct, error
from typing import NamedTuple

from sandbox.guest.protocol.fields import MAX_TEXT, Malformed, encode

FRAME = Struct("!BI")  # kind, bytes of the payload
MAX_REPLY = 1 << 20  # no frame of the guest is longer

# host to guest. SHARE and RESET carry the descriptor of new shared memory, if there is any. GRADE has the number of
# lines, their number of bytes, and the lines; GRADE_SHARED has no lines, because they are in the shared memory.
# FILTER comes first, and only if the sandbox's backend could not install the whole seccomp program itself.
LOAD, GRADE, RESET, SHARE, GRADE_SHARED, FILTER = 1, 2, 3, 4, 5, 6
# guest to host
READY, CHECK, LOADED, NOT_LOADED, RECORDS, DONE, TAINTED, ORPHANED, NO_PROCESS, CRASHED = range(16, 26)
STOPPED = b"\1"  # the payload of NOT_LOADED if loading ended, or took too long, before a check reported its failure

CHUNK = Struct("!II")  # lines, bytes
# Precedes each line of a grader that asks, after the known answers. JSON cannot contain it.
ANSWERED = b"\x1e"
CHECK_HEAD = Struct("!B?IIIII")
_LOADED_HEAD = Struct("!?H")  # whether the grader grades groups; the bytes of the names that it asks, one a line


class CheckResult(NamedTuple):
    """The result of one check, as it is sent. `number` counts from 0 in the order of the checks."""

    number: int
    passed: bool
    line: int
    column: int
    micros: int
    message: str
    trace: str


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
