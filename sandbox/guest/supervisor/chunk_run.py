"""Grades the lines of one chunk with as many children as it takes: each line comes to exactly one record."""

import _socket as socket  # what `socket` wraps: importing that takes a cold sandbox 3 ms
import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from sandbox.guest.child import output, shared_records
from sandbox.guest.child.main import DONE, FILLED, FILLED_DIGITS, SHARE
from sandbox.guest.kernel import scratch
from sandbox.guest.protocol.chunk import Chunk
from sandbox.guest.protocol.frames import (
    COMPLETION,
    CRASH,
    ELSEWHERE,
    MAX_FIELDS,
    MEMORY,
    MESSAGE,
    RECORD,
    STDOUT,
    TIMEOUT,
    Limits,
    Malformed,
    Records,
    add_field,
    encode,
    most_of_fields,
    pack_record,
    read_records,
    record_length,
    unpack_fields,
)
from sandbox.guest.supervisor.processes import ChildHandle, GraderProcesses, Lost
from sandbox.guest.template.fork_per_line import NO_STATUS, OUT_OF_MEMORY

_LOOK_MS = 20  # between two looks at the results: what a deadline may come late
_SEND_S = 10.0  # for a child to take its lines, which it does before any code of the grader runs
_READ = 1 << 16  # what a pipe holds
_MOST_RECORD = RECORD.size + MAX_FIELDS
_MOST_AHEAD = 4 * _MOST_RECORD  # bytes of records that a child has not reported yet

Tell = Callable[[Records], None]


class Failure(NamedTuple):
    """Why a completion has no record of its own: a kind of record, and what to say."""

    kind: int
    message: str


_SPOILED = Failure(CRASH, "the completion wrote to the channel that carries its result, and spoiled it")
_ORPHANED = Failure(CRASH, "the completion ended or stopped the process that had loaded the grader")


class ChunkRun:
    """One chunk. `tell` is given whole records, in order, as many as fit into one frame at most."""

    def __init__(self, processes: GraderProcesses, limits: Limits, chunk: Chunk, tell: Tell) -> None:
        self._processes = processes
        self._limits = limits
        self._chunk = chunk
        self._tell = tell
        self._most = most_of_fields(limits)
        self._told = 0  # records passed on
        self._seen = 0  # records told by children; the last of them may not be passed on yet
        self._slotted = chunk.shared and limits.isolation != COMPLETION and chunk.count <= shared_records.MOST
        self._filled = 0  # slots that the child said are filled
        self._room = 0  # bytes for the fields of records that are in slots
        self._used = 0  # up to here they were read
        self._share = 0  # up to here reach the lines of the child that grades now
        self._data = bytearray()
        self._since = 0.0

    def grade(self, child: ChildHandle | None) -> ChildHandle | None:
        """Grades every line, and returns the child where it can go on with the next chunk.

        Raises:
            Lost: there is no template any more. Another would be a copy of this process, which has seen completions.
            NotClean: a scratch folder could not be emptied.
        """
        once = self._limits.isolation == COMPLETION
        chunk = self._chunk
        while self._told < chunk.count:
            if not self._processes.alive:
                raise Lost("the process that had loaded the grader has ended")
            if once:
                self._grade_single()
                continue
            child = child or self._processes.start_child()
            self._data.clear()
            if self._slotted:
                shared_records.clear(child.slots, chunk.count)
                self._room = shared_records.make_room(child.slots, chunk.count)
                self._filled = self._used = 0
            self._share = chunk.count
            failure = self._watch(child)
            if failure is not None:
                self._bury(child, failure)
                child.close()
                child = None
                scratch.clean(self._processes.keep)
        return child

    def _grade_single(self) -> None:
        """Grades the next line in a process of its own."""
        self._share = self._told + 1
        self._data.clear()
        child = self._processes.start_single(self._chunk.lines[self._told])
        try:
            if failure := self._await_single(child):
                self._bury(child, failure)
        finally:
            child.close()
        if self._processes.shares and self._processes.alive:
            self._processes.end()  # the next takes another sandbox
        self._processes.clean()

    def _await_single(self, child: ChildHandle) -> Failure | None:
        """Waits for the end of a child that grades one line. None: its record counts."""
        self._since = monotonic()
        hurried = False
        try:
            while (status := self._processes.await_exit(hurried)) is None:
                self._collect(child, settled=False)
                if overdue := self._overdue():
                    return overdue
                hurried = self._make_room(child) < _LOOK_MS
            return self._ended(child, status)
        except Malformed:
            return _SPOILED
        except Lost:
            self._processes.end()
            return _ORPHANED

    def _watch(self, child: ChildHandle) -> Failure | None:
        """Follows the child through its share. None: it has done it; else what its current completion came to."""
        channel = child.channel
        assert channel is not None
        poll = select.poll()
        poll.register(channel, select.POLLIN)
        poll.register(self._processes.control, select.POLLIN)
        try:
            self._send(channel)
            self._since = monotonic()
            look_ms = _LOOK_MS
            while True:
                ready = dict(poll.poll(look_ms))
                if self._processes.control.fileno() in ready:
                    return self._ended(child, self._processes.hear_exit())
                message = self._heard(channel, poll) if channel.fileno() in ready else b""
                done = DONE in message
                self._collect(child, settled=done)
                if done:
                    return None if self._told == self._share and not self._data else _SPOILED
                if overdue := self._overdue():
                    return overdue
                look_ms = self._make_room(child)
        except Malformed:
            return _SPOILED
        except Lost:
            self._processes.end()
            return _ORPHANED

    def _send(self, channel: socket.socket) -> None:
        chunk = self._chunk
        if chunk.shared:
            waiting = memoryview(SHARE.pack(self._share, self._told, chunk.length, True, self._slotted, self._room))
        else:
            payload = b"\n".join(chunk.lines[self._told : self._share])
            waiting = memoryview(SHARE.pack(self._share - self._told, 0, len(payload), False, False, 0) + payload)
        deadline = monotonic() + _SEND_S
        poll = select.poll()
        poll.register(channel, select.POLLOUT)
        while waiting:
            if not poll.poll(max(0.0, deadline - monotonic()) * 1000):
                raise Malformed("the child does not take its lines")
            try:
                waiting = waiting[channel.send(waiting) :]
            except ConnectionError:
                return  # it has died: the template will say how

    def _heard(self, channel: socket.socket, poll: select.poll) -> bytes:
        """What the child says besides records. It may be anything: what has no meaning is passed over."""
        try:
            message = channel.recv(4096)
        except ConnectionError:
            message = b""
        if not message:
            poll.unregister(channel)  # closed by the grader
        _, said, rest = message.rpartition(FILLED)
        if said and rest[:FILLED_DIGITS].isdigit():
            self._filled = int(rest[:FILLED_DIGITS])
        return message

    def _collect(self, child: ChildHandle, settled: bool) -> None:
        """Passes on the records that the child has told so far. `settled`: it is not telling any just now."""
        before = self._seen
        more = True
        while more:  # with much that is not reported yet, a report is what is to be heard next
            more = (settled or len(self._data) <= _MOST_RECORD) and self._read(child)
            if self._slotted:
                self._take_slots(child, settled)
            else:
                self._take_records(child, settled)
        if self._seen != before:
            self._since = monotonic()

    def _read(self, child: ChildHandle) -> bool:
        try:
            data = os.read(child.results, _READ)
        except BlockingIOError:
            return False
        self._data += data
        return bool(data)

    def _take_records(self, child: ChildHandle, settled: bool) -> None:
        records, length = read_records(self._data)
        if self._told + records.number > self._share or len(self._data) - length > _MOST_RECORD:
            raise Malformed("more records than lines")
        self._seen = self._told + records.number
        if self._limits.isolation == COMPLETION:
            if not settled:
                return  # the child may yet tell one more, and spoil it
            unpack_fields(records.bodies, self._most)  # it says too much: that costs its own completion, and no other
            if records.number and (printed := output.take_rest(child.printed, self._limits.stdout_bytes)):
                records = add_field(records, STDOUT, printed)
        del self._data[:length]
        self._pass_on([records])

    def _take_slots(self, child: ChildHandle, settled: bool) -> None:
        heads = shared_records.read(child.slots, self._told, self._share)
        self._seen = self._told + len(heads) // RECORD.size
        if not settled:  # what is beyond may be half written, as this processor sees it: it tells how far the child is
            heads = heads[: max(0, self._filled - self._told) * RECORD.size]
        taken: list[Records] = []
        try:
            self._take_filled(child, heads, taken)
        finally:  # what lies before a record that is malformed counts
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
            records = shared_records.read_records(child.slots, some, self._used, self._room)
            taken.append(records)
            self._used += len(records.bodies)
            if records.number < end - first:
                raise Malformed("a slot that holds no record")
            first = end

    def _take_one(self) -> Records | None:
        """The first record that came through the pipe, once it is whole."""
        if len(self._data) < RECORD.size or len(self._data) < (length := record_length(self._data, 0)):
            return None
        record = Records(bytes(self._data[: RECORD.size]), bytes(self._data[RECORD.size : length]))
        del self._data[:length]
        return record

    def _pass_on(self, taken: list[Records]) -> None:
        records = Records(b"".join(part.heads for part in taken), b"".join(part.bodies for part in taken))
        if records.number:
            self._tell(records)
            self._told += records.number

    def _make_room(self, child: ChildHandle) -> int:
        """Empties a full output pipe, so that who prints a lot need not wait; returns when to look again, in ms."""
        if not output.is_full(child.printed):
            return _LOOK_MS
        output.take(child.printed, 0)
        return 1

    def _overdue(self) -> Failure | None:
        if monotonic() - self._since > self._limits.timeout_ms / 1000:
            seconds = self._limits.timeout_ms / 1000
            return Failure(
                TIMEOUT,
                f"`grade` took longer than {seconds:g} s. Look for an endless loop or a slow regular expression, "
                "or raise `timeout_s` of the grader.",
            )
        return Failure(MEMORY, too_many_files(self._limits)) if self._processes.crowded() else None

    def _ended(self, child: ChildHandle, status: int) -> Failure | None:
        """The child has ended by itself: as it should after its share in completion isolation, or not."""
        self._collect(child, settled=True)
        if self._told == self._share and self._limits.isolation == COMPLETION:
            return None
        return how_it_ended(status)

    def _bury(self, child: ChildHandle, failure: Failure) -> None:
        """Ends a child that failed, and gives its current completion the record that it could not write."""
        seen = self._seen
        if self._processes.alive:
            with suppress(Lost):
                self._processes.sweep() if child.channel is not None else self._processes.end_single()
        with suppress(Malformed):
            self._collect(child, settled=True)
        if self._told <= seen and self._told < self._share:  # else its record came just in time
            self._record(child, failure)

    def _record(self, child: ChildHandle, failure: Failure) -> None:
        micros = int((monotonic() - self._since) * 1e6)
        fields = [(MESSAGE, encode(failure.message, self._limits.text_bytes))]
        if printed := output.take(child.printed, self._limits.stdout_bytes):
            fields.append((STDOUT, printed))
        record = pack_record(failure.kind, micros, 0.0, fields)
        self._tell(Records(record[: RECORD.size], record[RECORD.size :]))
        self._told += 1
        self._seen = self._told


def too_many_files(limits: Limits) -> str:
    """What is wrong, and what to do."""
    return f"more than {limits.scratch_files} files in /tmp: remove what is no longer needed"


def how_it_ended(status: int) -> Failure:
    """A wait status in words."""
    if status == NO_STATUS:
        return Failure(CRASH, "the process ended, and nobody knows how")
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        return Failure(CRASH, f"the process was ended by {name}")
    code = os.waitstatus_to_exitcode(status)
    if code == OUT_OF_MEMORY:
        return Failure(MEMORY, "the process had no memory left: use less, or raise `memory_mb` of the grader")
    return Failure(CRASH, f"the process ended itself with exit code {code}")
