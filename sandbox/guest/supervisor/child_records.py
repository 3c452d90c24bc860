"""Collects the records of the children of one chunk, from the pipe and from the shared memory."""

import os
from collections.abc import Callable
from contextlib import suppress

from sandbox.guest.child import output, shared_records
from sandbox.guest.protocol.chunk import SentChunk
from sandbox.guest.protocol.fields import MAX_FIELDS, Malformed, most_of_fields, unpack_fields
from sandbox.guest.protocol.frames import MAX_REPLY
from sandbox.guest.protocol.grader_limits import COMPLETION, GraderLimits
from sandbox.guest.protocol.records import (
    COUNT,
    ELSEWHERE,
    RECORD,
    Records,
    put_before_output,
    read_records,
    record_length,
    split_records,
)
from sandbox.guest.supervisor.processes import ChildHandle

_READ = 1 << 16  # the capacity of a pipe
_MOST_RECORD = RECORD.size + MAX_FIELDS
# Bound on the buffered bytes of records that no slot counts yet: a child reports after it has written more than a pipe
# holds, and goes on.
_MOST_AHEAD = _MOST_RECORD + 2 * _READ
_MOST_PASSED = MAX_REPLY - COUNT.size

Tell = Callable[[Records], None]


class ChildRecords:
    """Passes on whole records, in order, at most as many at a time as fit into one frame.

    Attributes:
        passed_on: the number of records passed on.
        seen: the number of records written by children; the last of them may not be passed on yet.
        share: the end of the range of lines of the current child.
        slotted: whether children fill slots in shared memory.
        room: bytes for the fields of records in slots.
    """

    def __init__(self, limits: GraderLimits, chunk: SentChunk, tell: Tell) -> None:
        self._limits = limits
        self._count = chunk.count
        self._tell = tell
        self._most = most_of_fields(limits)
        self.passed_on = self.seen = self.share = 0
        self.slotted = chunk.shared and limits.isolation != COMPLETION and chunk.count <= shared_records.MOST
        self.room = 0
        self._filled = 0  # slots that the child reported as filled
        self._used = 0  # bytes of the room for fields that were read
        self._data = bytearray()
        self._kept: dict[int, bytes] = {}  # the beginning of the output of lines, taken from a full pipe

    def begin(self, child: ChildHandle) -> None:
        """Prepares for a child that grades all remaining lines."""
        self._data.clear()
        self._kept.clear()
        self.share = self._count
        if self.slotted:
            shared_records.clear(child.slots, self._count)
            self.room = shared_records.make_room(child.slots, self._count)
            self._filled = self._used = 0

    def begin_single(self) -> None:
        """Prepares for a child that grades only the next line."""
        self._data.clear()
        self._kept.clear()
        self.share = self.passed_on + 1

    def note_filled(self, slots: int) -> None:
        """Stores the number of slots that the child reported as filled."""
        self._filled = slots

    def keep_output(self, line: int, printed: bytes) -> None:
        """Keeps what `line` has printed so far. Its record will hold only what it prints after that."""
        self._kept[line] = (self._kept.get(line, b"") + printed)[: self._limits.stdout_bytes]

    def take_output(self, line: int) -> bytes:
        """Returns the output that was kept of `line`, and forgets it."""
        return self._kept.pop(line, b"")

    def is_whole(self) -> bool:
        """Whether the child has written one record for each of its lines, and nothing else."""
        return self.passed_on == self.share and not self._data

    def add(self, record: bytes) -> None:
        """Passes on a record of the next line that no child has written."""
        self._tell(Records(record[: RECORD.size], record[RECORD.size :]))
        self.passed_on += 1
        self.seen = self.passed_on

    def collect(self, child: ChildHandle, settled: bool) -> bool:
        """Passes on the records that the child has written so far. Returns whether there were new ones.

        Args:
            child: the child whose pipe and slots are read.
            settled: whether the child is not writing records at this time.

        Raises:
            Malformed: the child has written bytes that are no record, or more records than it has lines.
        """
        before = self.seen
        more = True
        while more:  # if too many bytes wait for a report, the report must be received before more is read
            more = (settled or len(self._data) <= _MOST_RECORD) and self._read(child)
            if self.slotted:
                self._take_slots(child, settled)
            else:
                self._take_records(child, settled)
        return self.seen != before

    def _read(self, child: ChildHandle) -> bool:
        try:
            data = os.read(child.results, _READ)
        except BlockingIOError:
            return False
        self._data += data
        return bool(data)

    def _take_records(self, child: ChildHandle, settled: bool) -> None:
        records, length = read_records(self._data)
        if self.passed_on + records.number > self.share or len(self._data) - length > _MOST_RECORD:
            raise Malformed("more records than lines")
        self.seen = self.passed_on + records.number
        if self._limits.isolation == COMPLETION:
            if not settled:
                return  # the child may still write more, which would make all of it malformed
            unpack_fields(records.bodies, self._most)  # oversized fields fail only this completion
            if records.number and (printed := output.take(child.printed, self._limits.stdout_bytes)):
                micros = RECORD.unpack_from(records.heads)[0]
                self.keep_output(self.passed_on, output.own(printed, micros, self._limits.timeout_ms))
        del self._data[:length]
        self._pass_on([records])

    def _take_slots(self, child: ChildHandle, settled: bool) -> None:
        heads = shared_records.read(child.slots, self.passed_on, self.share)
        self.seen = self.passed_on + len(heads) // RECORD.size
        if not settled:  # slots beyond the report may appear half written here; they only show progress
            heads = heads[: max(0, self._filled - self.passed_on) * RECORD.size]
        taken: list[Records] = []
        try:
            self._take_filled(child, heads, taken)
        finally:  # records before a malformed one count
            self._pass_on(taken)
        if len(self._data) > _MOST_AHEAD:
            raise Malformed("more records than slots")

    def _take_filled(self, child: ChildHandle, heads: bytes, taken: list[Records]) -> None:
        kinds = shared_records.kinds(heads)
        first = 0
        while first < len(kinds):
            if kinds[first] == ELSEWHERE:
                record = self._take_one()
                if record is None:
                    return
                taken.append(record)
                first += 1
                continue
            end = kinds.find(ELSEWHERE, first)
            end = len(kinds) if end < 0 else end
            some = heads[first * RECORD.size : end * RECORD.size]
            records = shared_records.read_records(child.slots, some, self._used, self.room)
            taken.append(records)
            self._used += len(records.bodies)
            if records.number < end - first:
                raise Malformed("a slot that holds no record")
            first = end

    def _take_one(self) -> Records | None:
        """Takes the first record from the pipe, None until it is complete."""
        if len(self._data) < RECORD.size or len(self._data) < (length := record_length(self._data, 0)):
            return None
        record = Records(bytes(self._data[: RECORD.size]), bytes(self._data[RECORD.size : length]))
        del self._data[:length]
        return record

    def _pass_on(self, taken: list[Records]) -> None:
        """Passes on the parts, in more than one frame if needed. Each part fits into one frame."""
        waiting: list[Records] = []
        size = 0
        for part in self._with_kept_output(taken):
            length = len(part.heads) + len(part.bodies)
            if size + length > _MOST_PASSED:
                self._tell_all(waiting)
                waiting, size = [], 0
            waiting.append(part)
            size += length
        self._tell_all(waiting)

    def _with_kept_output(self, taken: list[Records]) -> list[Records]:
        """Adds the output that was kept to the record of its line, which becomes a part of its own."""
        if not self._kept:
            return taken
        parts: list[Records] = []
        first = self.passed_on
        for part in taken:
            rest, after = part, first + part.number
            for line in sorted(each for each in self._kept if first <= each < after):
                before, rest = split_records(rest, line - first)
                one, rest = split_records(rest, 1)
                with suppress(Malformed):  # the host refuses its fields
                    one = put_before_output(one, self.take_output(line), self._most)
                parts += [before, one]
                first = line + 1
            parts.append(rest)
            first = after
        return parts

    def _tell_all(self, parts: list[Records]) -> None:
        records = Records(b"".join(part.heads for part in parts), b"".join(part.bodies for part in parts))
        if records.number:
            self._tell(records)
            self.passed_on += records.number
