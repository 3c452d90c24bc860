"""Writes the records of the process that grades: into the slots that it shares with the supervisor, or into a pipe."""

from __future__ import annotations

import os
from os import write
from time import perf_counter_ns
from typing import TYPE_CHECKING

from sandbox.guest.child.output import own
from sandbox.guest.child.shared_records import FIELDS_AT
from sandbox.guest.protocol.fields import STDOUT, pack_fields
from sandbox.guest.protocol.records import ELSEWHERE, MARK, MOST_MICROS, RECORD, pack_record

if TYPE_CHECKING:
    from mmap import mmap

    from sandbox.guest.child.output import ChildOutput

# Messages to the supervisor: the pipe is full; and from time to time, how many slots are filled. The slots alone do not
# show it, because a processor may make the last write visible first.
FULL, FILLED = b"f", b"p"
FILLED_DIGITS = 7
_REPORT_NS, _REPORT_BYTES = 50_000_000, 1 << 16


class RecordWriter:
    """Writes one record after the other, each with what its completion has printed.

    Attributes:
        pipe: the descriptor of the pipe.
        channel: the descriptor for messages to the supervisor; -1 if there is none, as for a process of one line.
    """

    def __init__(self, output: ChildOutput, timeout_ms: int) -> None:
        self.pipe = self.channel = -1
        self._output = output
        self._timeout_ms = timeout_ms
        self._slots: mmap | None = None
        self._slot = 0
        self._fields_at = self._fields_end = 0  # where the next fields go, and the end of the room for them
        self._begun = 0  # when the lines arrived, in nanoseconds
        self._report_at = 0
        self._unreported = 0  # bytes of records in the pipe since the last report

    def begin(self, slots: mmap | None, done: int, room: int) -> None:
        """Begins a request, of which `done` lines have records. The fields of those in slots have `room` bytes."""
        self._begun = perf_counter_ns()
        self._slots = slots
        self._slot = done * RECORD.size
        self._fields_at, self._fields_end = FIELDS_AT, FIELDS_AT + room
        self._report_at = self._begun + _REPORT_NS

    def write(self, kind: int, micros: int, score: float, fields: list[tuple[int, bytes]]) -> None:
        """Writes the record of a completion; into its slot if there is room for its fields."""
        if self._output.may_hold() and (printed := self._output.take()):
            # An earlier completion may have been asked where it was, and have ended before the signal arrived.
            fields.append((STDOUT, own(printed, (perf_counter_ns() - self._begun) // 1000, self._timeout_ms)))
        if micros > MOST_MICROS:
            micros = MOST_MICROS
        slots = self._slots
        if slots is None:
            self._send(pack_record(kind, micros, score, fields))
            return
        if not fields:
            RECORD.pack_into(slots, self._slot, micros, score, 0, MARK | kind)
        else:
            self._write_with_fields(slots, kind, micros, score, fields)
        self._slot += RECORD.size
        if perf_counter_ns() > self._report_at:
            self._report()

    def _write_with_fields(
        self, slots: mmap, kind: int, micros: int, score: float, fields: list[tuple[int, bytes]]
    ) -> None:
        body = pack_fields(fields)
        end = self._fields_at + len(body)
        if end <= self._fields_end:
            slots[self._fields_at : end] = body
            self._fields_at = end
            RECORD.pack_into(slots, self._slot, micros, score, len(body), MARK | kind)
            return
        self._send(RECORD.pack(micros, score, len(body), MARK | kind) + body)
        RECORD.pack_into(slots, self._slot, 0, 0.0, 0, MARK | ELSEWHERE)
        self._unreported += RECORD.size + len(body)
        if self._unreported >= _REPORT_BYTES:
            self._report_at = 0  # now

    def _report(self) -> None:
        """Reports how many slots are filled."""
        write(self.channel, b"%b%0*d" % (FILLED, FILLED_DIGITS, self._slot // RECORD.size))
        self._unreported = 0
        self._report_at = perf_counter_ns() + _REPORT_NS

    def _send(self, record: bytes) -> None:
        try:
            written = write(self.pipe, record)
        except BlockingIOError:
            written = 0
        if written < len(record):
            self._send_slowly(memoryview(record)[written:])

    def _send_slowly(self, rest: memoryview) -> None:
        """Writes to a full pipe. Requests that the supervisor empties it now, not at its next check."""
        os.set_blocking(self.pipe, True)
        if self.channel >= 0:
            write(self.channel, FULL)
        while rest:
            rest = rest[write(self.pipe, rest) :]
        os.set_blocking(self.pipe, False)
