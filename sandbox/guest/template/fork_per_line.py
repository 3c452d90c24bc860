"""Completion isolation in the template: one process per line, forked once the line is there and ended before the next.

The line is received into a buffer of the template, where the child reads it, and is zeroed before the next fork. Most
of the cost of a completion is copying the pages that its child writes to. So as much work as possible is done before
the fork, and little after it.
"""

import gc
import os
import sys
from _socket import CMSG_LEN, MSG_CMSG_CLOEXEC, socket
from collections.abc import Iterator
from contextlib import suppress
from resource import RLIMIT_CPU, setrlimit
from struct import Struct
from typing import NoReturn

from sandbox.guest.child.main import GradingLoop
from sandbox.guest.child.output import ChildOutput
from sandbox.guest.kernel.reap import reap_all
from sandbox.guest.kernel.signals import Handlers, put_back
from sandbox.guest.protocol.grader_limits import GraderLimits

# A request of the supervisor is ONE, the number of bytes of a line, and the line, in as many messages as it takes; or
# SWEEP, to end all running processes. The first message of a line has two descriptors: for the result and the output.
LINE = Struct("!cI")
ONE, SWEEP = b"1", b"S"
PIECE = 1 << 15  # bytes of a line in one message
RIGHTS = Struct("ii")
# Replies: a child has exited, with its status; all processes have ended; no child could be forked.
SENT_EXIT, SENT_SWEPT, SENT_NO_PROCESS = b"x", b"s", b"p"
STATUS = Struct("!I")  # a wait status; with SENT_NO_PROCESS, an errno; in the note, the pid of the child
NO_STATUS = 0xFFFFFFFF  # in place of a wait status that is not known
OUT_OF_MEMORY = 77  # exit code of a child without the memory to report it

CONTROL, NOTE = 3, 4  # descriptors of the template, which no child keeps
_ANCILLARY = CMSG_LEN(RIGHTS.size)
_ZEROS = memoryview(bytes(LINE.size + PIECE))


class ForkPerLine:
    """Receives lines and forks a child for each."""

    def __init__(
        self, control: socket, limits: GraderLimits, child: GradingLoop, output: ChildOutput, handlers: Handlers
    ) -> None:
        self._control = control
        self._handlers = handlers
        self._child = child
        seconds = 2 * limits.timeout_ms // 1000 + 2
        self._cpu = (seconds, seconds)
        self._message = memoryview(bytearray(LINE.size + PIECE))
        output.leave_to_supervisor(limits.stdout_bytes)

    def serve(self) -> NoReturn:
        """Serves the supervisor until it has exited."""
        gc.freeze()
        try:
            self._child.grade_one(self._processes().__next__)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        os._exit(0)

    def _processes(self) -> Iterator[tuple[bytes, int]]:
        """Forks a process for each line. In the child, yields the line and the descriptor for its record."""
        # A generator, because returning from the frame would decref its locals and make the child copy their pages.
        message = self._message
        while True:
            size, ancillary, _, _ = self._control.recvmsg_into((message,), _ANCILLARY, MSG_CMSG_CLOEXEC)
            if size < LINE.size:
                self._handle_request(message[:size])
                continue
            _, length = LINE.unpack_from(message)
            ((_, _, rights),) = ancillary
            results, printed = RIGHTS.unpack(rights)
            line = message[LINE.size : size] if length <= PIECE else self._receive_rest(length)
            copy = line.tobytes if line is not None else _no_memory
            try:
                pid = os.fork()
            except OSError as error:
                end_without_fork(self._control, error)
            if pid == 0:
                os.closerange(CONTROL, NOTE + 1)
                os.setpgid(0, 0)  # os.kill(0, …) then reaches only this child's group
                setrlimit(RLIMIT_CPU, self._cpu)
                if self._handlers:
                    put_back(self._handlers)
                own = os.open("/dev/null", os.O_RDWR)  # a new open file: flags set on a shared one would persist
                os.dup2(own, 0)
                os.close(own)
                os.dup2(printed, 1)
                os.dup2(printed, 2)
                yield copy(), results
                return
            os.pwrite(NOTE, STATUS.pack(pid), 0)
            os.close(results)
            os.close(printed)
            _, status = os.waitpid(pid, 0)
            message[:size] = _ZEROS[:size]
            if line is not None and length > PIECE:
                _wipe(line)
            line, copy = None, _no_memory
            reap_all()
            self._control.send(SENT_EXIT + STATUS.pack(status))

    def _handle_request(self, message: memoryview) -> None:
        if message != SWEEP:
            os._exit(0)  # the supervisor has exited
        reap_all()
        self._control.send(SENT_SWEPT)

    def _receive_rest(self, length: int) -> memoryview | None:
        """Receives the rest of a line longer than a message. Returns the whole line; None if memory is lacking."""
        line = None
        with suppress(MemoryError):
            line = memoryview(bytearray(length))
            line[:PIECE] = self._message[LINE.size :]
        done = PIECE
        while done < length:
            received = self._control.recv_into(self._message if line is None else line[done:])
            if not received:
                os._exit(0)  # the supervisor has exited
            done += received
        return line


def end_without_fork(control: socket, error: OSError) -> NoReturn:
    """Ends a template whose fork failed. Tells the supervisor if the cause is outside of the sandbox: that is so if the
    module body has left no threads and no children.
    """
    if _is_alone():
        control.send(SENT_NO_PROCESS + STATUS.pack(error.errno or 0))
    os._exit(0)


def _is_alone() -> bool:
    """Whether this process has no children, also adopted ones, and no threads of Python."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return len(sys._current_frames()) == 1
    return False


def _no_memory() -> bytes:
    raise MemoryError


def _wipe(memory: memoryview) -> None:
    for start in range(0, len(memory), PIECE):
        part = memory[start : start + PIECE]
        part[:] = _ZEROS[: len(part)]
