"""Grades the lines of one chunk with as many children as needed. Each line results in exactly one record."""

import _socket as socket  # the C module: importing `socket` costs a cold sandbox 3 ms
import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from sandbox.guest.child import output
from sandbox.guest.child.main import DONE, LEAVING, SHARE
from sandbox.guest.child.record_writer import FILLED, FILLED_DIGITS
from sandbox.guest.kernel import scratch
from sandbox.guest.protocol.chunk import SentChunk
from sandbox.guest.protocol.fields import MESSAGE, STDOUT, Malformed, encode
from sandbox.guest.protocol.grader_limits import COMPLETION, GraderLimits
from sandbox.guest.protocol.records import CRASH, MEMORY, TIMEOUT, pack_record
from sandbox.guest.supervisor import timeout_line
from sandbox.guest.supervisor.child_records import ChildRecords, Tell
from sandbox.guest.supervisor.processes import ChildHandle, GraderProcesses, Lost, NoProcess
from sandbox.guest.template.fork_per_line import NO_STATUS, OUT_OF_MEMORY

_LOOK_MS = 20  # between two checks of the results, so a deadline may be this late
_STALL_S = 0.5  # a check that is this late: this process did not run, and perhaps no other did, as in `docker pause`
_SEND_S = 10.0  # timeout for a child to receive its lines, which it does before any code of the grader runs

_LATE = "Look for an endless loop or a slow regular expression, or raise `timeout_s` of the grader."


class Failure(NamedTuple):
    """The reason why a child wrote no record of a completion: a kind of record, and a message."""

    kind: int
    message: str


_SPOILED = Failure(CRASH, "the completion wrote to the channel that carries its result, and corrupted it")


class Orphaned(Lost):
    """The template has ended while a line was graded. Whether that line's completion is the cause is not known here."""


class Crashed(Lost):
    """The process that graded a line has ended, which the message describes. The line needs another sandbox, because
    the cause may be an earlier completion, and what the module body has left may be changed.
    """


class ChunkRun:
    """Grades one chunk.

    `tell` receives whole records, in order, at most as many as fit into one frame. `end_with_host` is called at each
    check: it ends the sandbox if the host has closed the channel.
    """

    def __init__(
        self,
        processes: GraderProcesses,
        limits: GraderLimits,
        chunk: SentChunk,
        tell: Tell,
        end_with_host: Callable[[], None],
    ) -> None:
        self._processes = processes
        self._limits = limits
        self._chunk = chunk
        self._records = ChildRecords(limits, chunk, tell)
        self._end_with_host = end_with_host
        self._since = self._looked = 0.0
        self._again = -1  # the line that is graded a second time
        self._failure: Failure | None = None  # of its first time
        self._full_at = -1  # the line that was graded when the pipe was last found full

    def grade(self, child: ChildHandle | None) -> ChildHandle | None:
        """Grades every line. Returns the child if it can continue with the next chunk, else None.

        Raises:
            Lost: the template has ended. A new one would be forked from this process, which has seen completions.
            Orphaned: it has ended while a line was graded, which has no record.
            Crashed: it was ended after a line, which has no record.
            NoProcess: it could not fork.
            NotClean: a scratch folder could not be emptied.
        """
        once = self._limits.isolation == COMPLETION
        chunk = self._chunk
        while self._records.passed_on < chunk.count:
            if not self._processes.alive:
                if self._failure is not None and self._again == self._records.passed_on:
                    raise Crashed(self._failure.message)
                raise Lost("the process that had loaded the grader has ended")
            if once:
                self._grade_single()
                continue
            is_new, first = child is None, self._records.passed_on
            child = child or self._processes.start_child()
            self._records.begin(child)
            try:
                result = self._watch(child, is_new)
            except Orphaned:
                with suppress(Malformed):
                    self._collect(child, settled=True)
                raise
            if result is not True:
                self._end_child(child, result or None, first if is_new else -1)
                child.close()
                child = None
                scratch.clean(self._processes.keep)
                # The next child could read from a pipe what is for this one, or wait for a lock that this one had.
                self._end_template(self._processes.may_block or self._processes.has_new_files())
        return child

    def _grade_single(self) -> None:
        """Grades the next line in a separate process."""
        self._records.begin_single()
        first = self._records.passed_on
        child = self._processes.start_single(self._chunk.lines[first])
        try:
            if failure := self._await_single(child):
                self._end_child(child, failure, first)
        finally:
            child.close()
        self._end_template(self._processes.shares)
        self._processes.clean()

    def _end_template(self, needed: bool) -> None:
        """Ends the template if that is needed and it lives. The next line then needs another sandbox."""
        if needed and self._processes.alive:
            self._processes.end()

    def _await_single(self, child: ChildHandle) -> Failure | None:
        """Waits for the end of a child that grades one line. Returns None if its record counts.

        Raises:
            Orphaned: the template has ended. A record does not count then: whether it arrives in time is chance.
            NoProcess: it could not fork.
        """
        self._since = self._looked = monotonic()
        hurried = False
        try:
            while (status := self._processes.await_exit(hurried)) is None:
                self._collect(child, settled=False)
                if overdue := self._overdue():
                    return overdue
                hurried = self._make_room(child) < _LOOK_MS
            self._collect(child, settled=True)
            return None if self._records.passed_on == self._records.share else how_it_ended(status)
        except Malformed:
            return _SPOILED
        except Lost as lost:
            raise self._ended(lost) from lost

    def _watch(self, child: ChildHandle, is_new: bool) -> Failure | bool:
        """Monitors the child while it grades its share.

        Returns:
            True if it has finished and can continue with the next share, False if it leaves the rest to another child,
            else the failure of its current completion.

        Raises:
            Orphaned: the template has ended.
            NoProcess: it could not fork.
        """
        channel, begun = child.channel, self._records.passed_on
        assert channel is not None
        poll = select.poll()
        poll.register(channel, select.POLLIN)
        poll.register(self._processes.control, select.POLLIN)
        try:
            self._send(channel)
            self._since = self._looked = monotonic()
            look_ms = _LOOK_MS
            while True:
                ready = dict(poll.poll(look_ms))
                if self._processes.control.fileno() in ready:
                    status = self._processes.receive_exit()
                    self._collect(child, settled=True)
                    return how_it_ended(status)
                message = self._receive_messages(channel, poll) if channel.fileno() in ready else b""
                done, leaves = DONE in message, LEAVING in message
                self._collect(child, settled=done or leaves)
                if done:
                    return True if self._records.is_whole() else _SPOILED
                if leaves:
                    return _SPOILED if is_new and self._records.passed_on == begun else False
                if overdue := self._overdue():
                    return overdue
                look_ms = self._make_room(child)
        except Malformed:
            return _SPOILED
        except Lost as lost:
            raise self._ended(lost) from lost

    def _ended(self, lost: Lost) -> Lost:
        self._processes.end()
        if isinstance(lost, NoProcess):
            return lost
        return Orphaned("the process that had loaded the grader has ended while a line was graded")

    def _send(self, channel: socket.socket) -> None:
        chunk, records = self._chunk, self._records
        if chunk.shared:
            head = SHARE.pack(records.share, records.passed_on, chunk.length, True, records.slotted, records.room)
            waiting = memoryview(head)
        else:
            payload = b"\n".join(chunk.lines[records.passed_on : records.share])
            head = SHARE.pack(records.share - records.passed_on, 0, len(payload), False, False, 0)
            waiting = memoryview(head + payload)
        deadline = monotonic() + _SEND_S
        poll = select.poll()
        poll.register(channel, select.POLLOUT)
        while waiting:
            if not poll.poll(max(0.0, deadline - monotonic()) * 1000):
                raise Malformed("the child does not read its lines")
            try:
                waiting = waiting[channel.send(waiting) :]
            except ConnectionError:
                return  # it has exited: the template will report its status

    def _receive_messages(self, channel: socket.socket, poll: select.poll) -> bytes:
        """Receives what the child sends besides records: arbitrary bytes, ignored if they have no meaning."""
        try:
            message = channel.recv(4096)
        except ConnectionError:
            message = b""
        if not message:
            poll.unregister(channel)  # closed by the grader
        _, said, rest = message.rpartition(FILLED)
        if said and rest[:FILLED_DIGITS].isdigit():
            self._records.note_filled(int(rest[:FILLED_DIGITS]))
        return message

    def _collect(self, child: ChildHandle, settled: bool) -> None:
        if self._records.collect(child, settled):
            self._since = monotonic()

    def _make_room(self, child: ChildHandle) -> int:
        """Empties a full pipe, so that a child that prints a lot need not wait. Returns the ms until the next check."""
        if not output.is_full(child.printed):
            return _LOOK_MS
        line, before = self._current_line(child), self._full_at
        self._full_at = line
        # A completion that waits to print ends only after this. One that does not wait may end meanwhile, and then the
        # output may be that of the next one. So output is taken only of a completion that is still graded 1 ms later.
        if line == before:
            self._records.keep_output(line, output.take(child.printed, self._limits.stdout_bytes))
        return 1

    def _current_line(self, child: ChildHandle) -> int:
        if child.channel is None:
            return self._records.passed_on
        self._collect(child, settled=False)
        return self._records.seen

    def _overdue(self) -> Failure | None:
        self._end_with_host()
        looked, self._looked = self._looked, monotonic()
        if self._looked - looked > _STALL_S:
            self._since = min(self._looked, self._since + self._looked - looked)
        if self._looked - self._since > self._limits.timeout_ms / 1000:
            seconds = self._limits.timeout_ms / 1000
            return Failure(TIMEOUT, f"`grade` took longer than {seconds:g} s")
        return Failure(MEMORY, too_many_files(self._limits)) if self._processes.crowded() else None

    def _end_child(self, child: ChildHandle, failure: Failure | None, first: int) -> None:
        """Ends a child that failed or leaves. If it failed at a completion, adds the record that it could not write.

        `first` is the first line that its process has graded; -1 if that was in an earlier chunk.
        """
        seen = self._records.seen
        if failure is not None and failure.kind == TIMEOUT:
            timeout_line.ask(self._processes, child.printed)
        if self._processes.alive:
            with suppress(Lost):
                self._processes.sweep() if child.channel is not None else self._processes.end_single()
        with suppress(Malformed):
            self._collect(child, settled=True)
        # If more was passed on than had been seen, the record of the completion arrived just in time.
        if failure is None or self._records.passed_on > seen or self._records.passed_on == self._records.share:
            return
        printed = output.take(child.printed, output.MOST)
        if self._is_final(failure, first, printed):
            self._record(failure, printed)

    def _is_final(self, failure: Failure, first: int, printed: bytes) -> bool:
        """Whether a failure counts. If not, a new process grades the line again: the cause may be an earlier completion
        of the process, by a thread or what it left, or outside the sandbox: the kernel's OOM killer, or a signal to all
        processes of a service.
        """
        line = self._records.passed_on
        if line == self._again or (line == first and failure not in _OFTEN_FROM_OUTSIDE):
            return True
        if failure.kind == TIMEOUT and not timeout_line.has_threads(printed):
            return True
        self._again, self._failure = line, failure
        return False

    def _record(self, failure: Failure, printed: bytes) -> None:
        micros = int((monotonic() - self._since) * 1e6)
        message = failure.message
        if failure.kind == TIMEOUT:
            printed, where = timeout_line.split(printed, self._processes.source)
            message += f"{where}. {_LATE}"
        fields = [(MESSAGE, encode(message, self._limits.text_bytes))]
        line = self._records.passed_on
        self._records.keep_output(line, printed)
        if kept := self._records.take_output(line):
            fields.append((STDOUT, kept))
        self._records.add(pack_record(failure.kind, micros, 0.0, fields))


def too_many_files(limits: GraderLimits) -> str:
    """The message for too many files: the problem and the remedy."""
    return f"more than {limits.scratch_files} files in /tmp: remove what is no longer needed"


def how_it_ended(status: int) -> Failure:
    """Describes a wait status as a failure."""
    if status == NO_STATUS:
        return Failure(CRASH, "the process ended for an unknown reason")
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


_OFTEN_FROM_OUTSIDE = tuple(map(how_it_ended, (signal.SIGKILL, signal.SIGTERM)))
