"""The supervisor's interface to the processes below it: the template, and the child that grades."""

import _socket as socket  # the C module: importing `socket` costs a cold sandbox 3 ms
import os
import select
import signal
from contextlib import suppress
from struct import pack
from time import monotonic, sleep
from typing import NamedTuple

from sandbox.guest.child import output, shared_records
from sandbox.guest.kernel import scratch
from sandbox.guest.protocol.fields import Malformed
from sandbox.guest.protocol.frames import unpack_check
from sandbox.guest.protocol.grader_limits import BATCH, COMPLETION, GraderLimits
from sandbox.guest.template.fork_per_line import (
    LINE,
    NO_STATUS,
    ONE,
    PIECE,
    RIGHTS,
    SENT_EXIT,
    SENT_NO_PROCESS,
    SENT_SWEPT,
    STATUS,
    SWEEP,
)
from sandbox.guest.template.main import FORK, MOST_SENT, SENT_CHECK, SENT_LOADED, SENT_NOT_LOADED
from sandbox.guest.template.process import LOOK_S, SpareTemplate, make_note, start_template, tell

_GRACE_S = 1.0  # a template that takes longer than this to answer is ended
_HURRY_S = 0.001  # wait for an exit status while a process waits for a pipe to be emptied
_EXIT_S = 5.0  # timeout for all processes to exit once they were killed
_EXIT_LOOK_S = 0.0005
_MOST_PID = 1 << 22
_SETTLED = (bytes([BATCH]), bytes([COMPLETION]))


class Lost(Exception):
    """The template has ended or does not answer."""


class NoProcess(Lost):
    """The template could not fork, and has ended."""


class ChildHandle(NamedTuple):
    """The supervisor's ends of a child's descriptors. In completion isolation there are only the first two."""

    results: int
    printed: int
    channel: socket.socket | None = None
    slots: int = -1

    def close(self) -> None:
        """Closes all descriptors, which ends a child that waits for lines."""
        if self.channel is not None:
            self.channel.close()
        os.close(self.results)
        os.close(self.printed)
        if self.slots >= 0:
            os.close(self.slots)


class LoadResult(NamedTuple):
    """The result of loading.

    If loading is done, `isolation` is resolved, and `told` holds the names that the grader asks and its warnings.
    `status` is the template's wait status if it has exited.

    Loading was stopped if it took too long (`timed_out`) or created too many files (`crowded`). `leaves_open` is set if
    the module body left descriptors, which all children would share.
    """

    checks: list[bytes]
    done: bool = False
    isolation: int = 0
    told: bytes = b""
    timed_out: bool = False
    status: int = NO_STATUS
    crowded: bool = False
    leaves_open: bool = False


class GraderProcesses:
    """One template, and at most one child at a time.

    There is never a second template: it would be forked from a supervisor that has seen completions, and could find
    them in its memory.

    Attributes:
        source: the source of the grader.
        shared: the descriptor of the memory with the lines of this batch; -1 if there is none.
        keep: the paths that the module body has left in the scratch folders, where completions may find them.
        shares: whether children of this template could reach each other, or those of the next batch, through something
            that the module body has left: open descriptors, or files, even files without a name.
        may_block: whether a child could find or wait for what another one has left so, as in a pipe, a lock or a file.
            An empty folder holds nothing until a child writes into it: see `has_new_files`.
    """

    def __init__(self, limits: GraderLimits, source: bytes, shared: int, waiting: SpareTemplate | None = None) -> None:
        """`waiting` is a spare template to use, if there is one already."""
        self._limits = limits
        self.shared = shared
        self.source = source
        self._control: socket.socket | None = None
        self._template = 0
        self._waiting = waiting
        self._note = waiting.note if waiting else make_note()
        self._unused = scratch.count_files() if scratch.is_counted() else -1
        self._loaded = 0  # the number of files when the grader was loaded
        self._grading = False  # whether a child of `start_single` has not ended yet
        self.keep: frozenset[str] = frozenset()
        self.shares = False
        self.may_block = False

    def load(self) -> LoadResult:
        """Starts a template or uses the spare one, and waits until it has loaded the grader or reported a failure."""
        waiting, self._waiting = self._waiting or start_template(self._note), None
        self._template, self._control = waiting.template, waiting.control
        tell(self._control, self._limits, self.source)
        loaded = self._await_loading(monotonic() + self._limits.load_ms / 1000)
        if loaded.done:
            self._limits = self._limits._replace(isolation=loaded.isolation)
            self.keep = scratch.names()
            self._loaded = scratch.count_files()
            folders = sum(map(os.path.isdir, self.keep))
            others = self._loaded != self._unused + folders if self._unused >= 0 else bool(self.keep)
            self.may_block = loaded.leaves_open or others
            self.shares = self.may_block or bool(self.keep)
        else:
            self.end()
        return loaded

    def _await_loading(self, deadline: float) -> LoadResult:
        checks: list[bytes] = []
        passed = True
        while True:
            message = self._next_message(LOOK_S)
            if self.crowded():
                return LoadResult(checks[:3], crowded=True)
            if message is None and monotonic() < deadline:
                continue
            if message is None:
                return LoadResult(checks[:3], timed_out=True)
            kind, rest = message[:1], message[1:]
            if kind == SENT_CHECK and passed and _is_check(rest, len(checks)):
                checks.append(rest)
                passed = unpack_check(rest).passed
            elif kind == SENT_LOADED and passed and len(checks) == 4 and rest[:1] in _SETTLED:
                return LoadResult(checks, True, rest[0], rest[2:], leaves_open=rest[1:2] != b"\0")
            elif kind == SENT_NOT_LOADED and not passed:
                return LoadResult(checks)
            else:  # it has ended, or the module body writes in its place
                return LoadResult(checks[:3], status=self._reap_template())

    def clean(self) -> None:
        """Restores the initial state of the scratch folders. Usually they are in it already.

        Raises:
            NotClean: something could not be removed.
        """
        if self._unused >= 0 and scratch.count_files() == self._unused:
            scratch.reopen()
        else:
            scratch.clean()

    def has_new_files(self) -> bool:
        """Whether children have left files in a folder of the module body, or removed some."""
        return self._unused >= 0 and scratch.count_files() != self._loaded

    def crowded(self) -> bool:
        """Whether there are more files than the limits allow. Nothing else bounds the memory that they cost."""
        return scratch.count_files() > self._limits.scratch_files

    def _next_message(self, seconds: float) -> bytes | None:
        """Receives the template's next message: empty if it has ended, None if no message arrived in time."""
        assert self._control is not None
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        if not poll.poll(max(0, seconds) * 1000):
            return None
        try:
            return self._control.recv(MOST_SENT)
        except ConnectionError:
            return b""

    def _reap_template(self) -> int:
        """Reaps the template, and returns its wait status. It has closed its socket, and is killed in case it runs.

        Returns NO_STATUS if it does not exit in time; `end` then raises Lost.
        """
        deadline = monotonic() + _EXIT_S
        pid = 0
        while not pid and monotonic() < deadline:
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            pid, status = os.waitpid(self._template, os.WNOHANG)
            if not pid:
                sleep(_EXIT_LOOK_S)
        self._template = 0
        return status if pid else NO_STATUS

    @property
    def alive(self) -> bool:
        """Whether there is a template that takes requests."""
        return self._control is not None

    @property
    def control(self) -> socket.socket:
        """The socket on which the template reports how a child ended."""
        assert self._control is not None
        return self._control

    def start_child(self) -> ChildHandle:
        """Requests a child that takes lines until it ends.

        Raises:
            Lost: there is no template that takes requests.
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
        """Requests a child that grades only this line. It is sent no descriptors except those that it writes to.

        Raises:
            Lost: there is no template that takes requests, or it does not receive the line.
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
        """The wait status of the child; None if it has not ended in the time between two checks.

        Raises:
            Lost: the template has ended, or has sent an unexpected message.
        """
        try:
            message = self._next_message(_HURRY_S) if hurried else self.control.recv(2 + STATUS.size)
        except BlockingIOError:
            message = None
        except OSError as error:
            raise Lost from error
        if message is None:
            return None
        status = _status_of(message)
        self._grading = False
        return status

    def end_single(self) -> None:
        """Ends the child of `start_single`, unless it has already ended, and all processes that it left.

        Raises:
            Lost: the template did not answer; all processes are dead then.
        """
        deadline = monotonic() + _GRACE_S
        while self._grading and monotonic() < deadline:
            with suppress(ProcessLookupError):
                os.kill(self.child_pid(), signal.SIGKILL)
            with suppress(Lost):
                self.await_exit()
        if self._grading:
            self.end()
            raise Lost

    def child_pid(self) -> int:
        """The pid of the child, as the template wrote it, which a completion may control.

        Raises:
            ProcessLookupError: it wrote no pid.
        """
        pid = int.from_bytes(os.pread(self._note, STATUS.size, 0))
        if not 1 < pid < _MOST_PID:
            raise ProcessLookupError
        return pid

    def receive_exit(self) -> int:
        """The wait status of the child, from a message of the template that has arrived.

        Raises:
            Lost: the template has ended, or has sent an unexpected message.
        """
        return _status_of(self._next_message(0))

    def sweep(self) -> None:
        """Ends the child and all processes that it left.

        Raises:
            Lost: the template did not answer; all processes are dead then.
        """
        deadline = monotonic() + _GRACE_S
        try:
            self.control.send(SWEEP)
            while (message := self._next_message(deadline - monotonic())) is not None and message[:1] == SENT_EXIT:
                pass  # the child ended by itself meanwhile
        except OSError:
            message = None
        if message != SENT_SWEPT:
            self.end()
            raise Lost

    def rest(self, resting: bool) -> None:
        """Stops the template while it is not needed, with any threads that the grader has started, or resumes it."""
        if self._template:
            os.kill(self._template, signal.SIGSTOP if resting else signal.SIGCONT)

    def end(self) -> None:
        """Kills and reaps all processes except this one.

        Raises:
            Lost: some processes did not exit in time.
        """
        if self._control is not None:
            self._control.close()
            self._control = None
        self._template = 0
        self._grading = False
        deadline = monotonic() + _EXIT_S
        with suppress(ChildProcessError):
            while monotonic() < deadline:
                with suppress(ProcessLookupError):
                    os.kill(-1, signal.SIGKILL)
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
                sleep(_EXIT_LOOK_S)  # WNOHANG: a process that hangs in the kernel does not exit when it is killed
            raise Lost(f"a killed process has not exited within {_EXIT_S:g} s")


def _status_of(message: bytes | None) -> int:
    """The wait status in the template's message that a child has ended. Raises Lost if this is another message."""
    if message is None or message[:1] not in (SENT_EXIT, SENT_NO_PROCESS) or len(message) != 1 + STATUS.size:
        raise Lost
    (number,) = STATUS.unpack(message[1:])
    if message[:1] == SENT_NO_PROCESS:
        raise NoProcess(os.strerror(number))
    return int(number)


def _is_check(message: bytes, number: int) -> bool:
    try:
        return unpack_check(message).number == number
    except Malformed:
        return False
