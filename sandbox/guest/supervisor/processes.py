"""The supervisor's view of the processes below it: the template, and the child that grades."""

import _socket as socket  # what `socket` wraps: importing that takes a cold sandbox 3 ms
import os
import select
import signal
from contextlib import suppress
from struct import pack
from time import monotonic
from typing import NamedTuple

from sandbox.guest.child import output, shared_records
from sandbox.guest.kernel import scratch
from sandbox.guest.protocol.frames import BATCH, COMPLETION, GraderLimits, Malformed, unpack_check
from sandbox.guest.template.fork_per_line import (
    LINE,
    NO_STATUS,
    ONE,
    PIECE,
    RIGHTS,
    SAID_EXIT,
    SAID_SWEPT,
    STATUS,
    SWEEP,
)
from sandbox.guest.template.main import FORK, MOST_SAID, SAID_CHECK, SAID_LOADED, SAID_NOT_LOADED
from sandbox.guest.template.process import LOOK_S, SpareTemplate, make_note, start_template, tell

_GRACE_S = 1.0  # a template that takes longer than this to answer is replaced
_HURRY_S = 0.001  # the same where somebody waits for a pipe to be emptied
_FAREWELL_S = 5.0  # for all processes to be gone once they were killed
_MOST_PID = 1 << 22
_SETTLED = (bytes([BATCH]), bytes([COMPLETION]))


class Lost(Exception):
    """The template has ended or does not answer."""


class ChildHandle(NamedTuple):
    """The supervisor's ends of a child's descriptors. In completion isolation there are but two."""

    results: int
    printed: int
    channel: socket.socket | None = None
    slots: int = -1

    def close(self) -> None:
        """Closes all: a child that waits for lines ends by it."""
        if self.channel is not None:
            self.channel.close()
        os.close(self.results)
        os.close(self.printed)
        if self.slots >= 0:
            os.close(self.slots)


class LoadResult(NamedTuple):
    """How loading went. `isolation` is settled when it is done, and `told` is what the grader asks and its warnings;
    `status` is the template's when that has ended.

    It was stopped when it took too long (`timed_out`) or made too many files (`crowded`). `leaves_open` says that the
    module body left descriptors, which all children would share.
    """

    done: bool
    isolation: int
    told: bytes
    checks: list[bytes]
    timed_out: bool
    status: int
    crowded: bool = False
    leaves_open: bool = False


class GraderProcesses:
    """One template, and at most one child at a time. There is never a second one: it would be forked from a supervisor
    that has seen completions, and could find them in its memory.

    Attributes:
        shared: the memory where the lines of this batch lie; -1 where there is none.
        keep: what the module body has left in the scratch folders, where completions may find it.
        shares: whether children of this template could reach each other, or those of the next batch, by what the module
            body has left: open descriptors, or files, though they have no name.
    """

    def __init__(self, limits: GraderLimits, source: bytes, shared: int, waiting: SpareTemplate | None = None) -> None:
        """`waiting` is what becomes the template, where there is one already."""
        self._limits = limits
        self.shared = shared
        self._source = source
        self._control: socket.socket | None = None
        self._template = 0
        self._waiting = waiting
        self._note = waiting.note if waiting else make_note()
        self._unused = scratch.count_files() if scratch.is_counted() else -1
        self._grading = False  # a child that `start_single` started, and that has not ended
        self.keep: frozenset[str] = frozenset()
        self.shares = False

    def load(self) -> LoadResult:
        """Starts a template and waits until it has loaded the grader, or has said why not."""
        waiting, self._waiting = self._waiting or start_template(self._note), None
        self._template, self._control = waiting.template, waiting.control
        tell(self._control, self._limits, self._source)
        loaded = self._hear_loading(monotonic() + self._limits.load_ms / 1000)
        if loaded.done:
            self._limits = self._limits._replace(isolation=loaded.isolation)
            self.keep = scratch.names()
            nameless = self._unused >= 0 and scratch.count_files() != self._unused
            self.shares = loaded.leaves_open or nameless or bool(self.keep)
        else:
            self.end()
        return loaded

    def _hear_loading(self, deadline: float) -> LoadResult:
        checks: list[bytes] = []
        passed = True
        while True:
            said = self._hear(LOOK_S)
            if self.crowded():
                return LoadResult(False, 0, b"", checks[:3], False, NO_STATUS, crowded=True)
            if said is None and monotonic() < deadline:
                continue
            if said is None:
                return LoadResult(False, 0, b"", checks[:3], True, NO_STATUS)
            kind, rest = said[:1], said[1:]
            if kind == SAID_CHECK and passed and _is_check(rest, len(checks)):
                checks.append(rest)
                passed = unpack_check(rest).passed
            elif kind == SAID_LOADED and passed and len(checks) == 4 and rest[:1] in _SETTLED:
                return LoadResult(True, rest[0], rest[2:], checks, False, NO_STATUS, leaves_open=rest[1:2] != b"\0")
            elif kind == SAID_NOT_LOADED and not passed:
                return LoadResult(False, 0, b"", checks, False, NO_STATUS)
            else:  # it has ended, or the module body speaks in its place
                return LoadResult(False, 0, b"", checks[:3], False, self._reap_template())

    def clean(self) -> None:
        """Leaves the scratch folders as they were at first, which they mostly are.

        Raises:
            NotClean: something could not be removed.
        """
        if self._unused >= 0 and scratch.count_files() == self._unused:
            scratch.reopen()
        else:
            scratch.clean()

    def crowded(self) -> bool:
        """Whether there are more files than the limits allow: nothing else bounds the memory that they cost."""
        return scratch.count_files() > self._limits.scratch_files

    def _hear(self, seconds: float) -> bytes | None:
        """The template's next message: empty when it has ended, None when none came in time."""
        assert self._control is not None
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        if not poll.poll(max(0, seconds) * 1000):
            return None
        try:
            return self._control.recv(MOST_SAID)
        except ConnectionError:
            return b""

    def _reap_template(self) -> int:
        """How the template ended: it closed its channel, so it is killed in case it lives."""
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        _, status = os.waitpid(self._template, 0)
        self._template = 0
        return status

    @property
    def alive(self) -> bool:
        """Whether there is a template to ask."""
        return self._control is not None

    @property
    def control(self) -> socket.socket:
        """Where the template says how a child ended."""
        assert self._control is not None
        return self._control

    def start_child(self) -> ChildHandle:
        """Asks the template for a child that takes lines for as long as it lives.

        Raises:
            Lost: there is no template to ask.
        """
        ours, theirs = socket.socketpair()
        results, results_in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        printed, printed_in = output.make_pipe()
        slot_file = shared_records.make_file() if self.shared >= 0 else -1
        memory = (self.shared, slot_file) if self.shared >= 0 else ()
        rights = (theirs.fileno(), results_in, printed, printed_in, *memory)
        try:
            self.control.sendmsg([FORK], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, pack(f"{len(rights)}i", *rights))])
        except OSError as error:
            ChildHandle(results, printed, ours, slot_file).close()
            raise Lost from error
        finally:
            theirs.close()
            os.close(results_in)
            os.close(printed_in)
        ours.setblocking(False)
        return ChildHandle(results, printed, ours, slot_file)

    def start_single(self, line: bytes) -> ChildHandle:
        """Asks the template for a child that grades this line, and no other. It is given nothing but what it writes to.

        Raises:
            Lost: there is no template to ask, or it does not listen.
        """
        results, results_in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        printed, printed_in = output.make_pipe()
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, RIGHTS.pack(results_in, printed_in))
        try:
            self.control.sendmsg((LINE.pack(ONE, len(line)), line[:PIECE]), (rights,))
            for start in range(PIECE, len(line), PIECE):
                self.control.send(line[start : start + PIECE])
        except OSError as error:
            ChildHandle(results, printed).close()
            raise Lost from error
        finally:
            os.close(results_in)
            os.close(printed_in)
        self._grading = True
        return ChildHandle(results, printed)

    def await_exit(self, hurried: bool = False) -> int | None:
        """How the child has ended; None when it has not in the time between two looks.

        Raises:
            Lost: the template has ended, or says what it has no cause to say.
        """
        try:
            said = self._hear(_HURRY_S) if hurried else self.control.recv(2 + STATUS.size)
        except BlockingIOError:
            said = None
        except OSError as error:
            raise Lost from error
        if said is None:
            return None
        if said[:1] != SAID_EXIT or len(said) != 1 + STATUS.size:
            raise Lost
        self._grading = False
        return int(STATUS.unpack(said[1:])[0])

    def end_single(self) -> None:
        """Ends the child that `start_single` started, unless it has ended by itself, and all that it left.

        Raises:
            Lost: the template did not answer; all processes are dead then.
        """
        deadline = monotonic() + _GRACE_S
        while self._grading and monotonic() < deadline:
            pid = int.from_bytes(os.pread(self._note, STATUS.size, 0))
            if 1 < pid < _MOST_PID:  # the template's word, and that may be taken over
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(Lost):
                self.await_exit()
        if self._grading:
            self.end()
            raise Lost

    def hear_exit(self) -> int:
        """How the child ended, when the template has something to say.

        Raises:
            Lost: the template has ended, or says what it has no cause to say.
        """
        said = self._hear(0)
        if said is None or said[:1] != SAID_EXIT or len(said) != 1 + STATUS.size:
            raise Lost
        return int(STATUS.unpack(said[1:])[0])

    def sweep(self) -> int:
        """Ends the child and all that it left, and says how it ended.

        Raises:
            Lost: the template did not answer; all processes are dead then.
        """
        deadline = monotonic() + _GRACE_S
        try:
            self.control.send(SWEEP)
            while (said := self._hear(deadline - monotonic())) is not None and said[:1] == SAID_EXIT:
                pass  # the child ended by itself in between
        except OSError:
            said = None
        if said is None or said[:1] != SAID_SWEPT or len(said) != 1 + STATUS.size:
            self.end()
            raise Lost
        return int(STATUS.unpack(said[1:])[0])

    def rest(self, resting: bool) -> None:
        """Stops the template while nobody needs it, with the threads that the grader may have started."""
        if self._template:
            os.kill(self._template, signal.SIGSTOP if resting else signal.SIGCONT)

    def end(self) -> None:
        """Kills every process but this one, and reaps them.

        Raises:
            Lost: some did not go.
        """
        if self._control is not None:
            self._control.close()
            self._control = None
        self._template = 0
        self._grading = False
        deadline = monotonic() + _FAREWELL_S
        with suppress(ChildProcessError):
            while monotonic() < deadline:
                with suppress(ProcessLookupError):
                    os.kill(-1, signal.SIGKILL)
                os.waitpid(-1, 0)
            raise Lost


def _is_check(said: bytes, number: int) -> bool:
    try:
        return unpack_check(said).number == number
    except Malformed:
        return False
