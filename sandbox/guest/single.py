"""Completion isolation in the template: a process for each line, forked when the line is there, gone before the next.

The line comes into a buffer of the template, where the child finds it, and is wiped out before the next fork.
Most of what a completion costs are the copies of pages that a child makes by writing to them. So all that can be is
made ahead of the fork, and what comes after it is short.
"""

import os
from contextlib import suppress
from resource import RLIMIT_CPU, setrlimit
from socket import CMSG_LEN, socket
from struct import Struct
from typing import Any, NoReturn

from sandbox.guest import pages
from sandbox.guest.child import Child
from sandbox.guest.frames import Limits
from sandbox.guest.output import Output
from sandbox.guest.reaping import reap_all

# What the supervisor asks: the bytes of a line, which follow, in as many messages as it takes; or an end to all that
# runs. The first message comes with two descriptors: for the result, and for what is printed.
LINE = Struct("!cI")
ONE, SWEEP = b"1", b"S"
PIECE = 1 << 15  # bytes of a line in one message
RIGHTS = Struct("ii")
# What it is told: how a child has ended, that all has ended.
SAID_EXIT, SAID_SWEPT = b"x", b"s"
STATUS = Struct("!I")  # a wait status, or the number of the child, in the note
NO_STATUS = 0xFFFFFFFF
OUT_OF_MEMORY = 77  # exit code of a child that had no memory left to say so

CONTROL, NOTE = 3, 4  # the template's own descriptors, which no child keeps
_ANCILLARY = CMSG_LEN(RIGHTS.size)
_ZEROS = memoryview(bytes(PIECE))


class Single:
    """What receives lines and forks."""

    def __init__(self, control: socket, limits: Limits, child: Child, output: Output) -> None:
        self._control = control
        self._child = child
        self._output = output
        self._stdout_bytes = limits.stdout_bytes
        seconds = 2 * limits.timeout_ms // 1000 + 2
        self._cpu = (seconds, seconds)
        self._message = memoryview(bytearray(LINE.size + PIECE))

    def serve(self) -> None:
        """Does what the supervisor asks, until it has gone."""
        control, message = self._control, self._message
        parts = (message,)
        pages.fill_gaps()
        while True:
            size, ancillary, _, _ = control.recvmsg_into(parts, _ANCILLARY)
            if size < LINE.size:
                if message[:size] != SWEEP:
                    return
                reap_all()
                control.send(SAID_SWEPT + STATUS.pack(NO_STATUS))
                continue
            status = self._grade(size, ancillary)
            reap_all()
            control.send(SAID_EXIT + STATUS.pack(status))

    def _grade(self, size: int, ancillary: list[Any]) -> int:
        """Forks the child that grades the line that is there, and waits for its end; meanwhile the note has its pid."""
        _, length = LINE.unpack_from(self._message)
        ((_, _, rights),) = ancillary
        results, printed = RIGHTS.unpack(rights)
        line = self._message[LINE.size : LINE.size + length] if length <= PIECE else self._receive_rest(length)
        pid = os.fork()
        if pid == 0:
            self._run(line, results, printed)
        os.pwrite(NOTE, STATUS.pack(pid), 0)
        os.close(results)
        os.close(printed)
        _, status = os.waitpid(pid, 0)
        _wipe(self._message[:size])
        if line is not None:
            _wipe(line)
        return status

    def _receive_rest(self, length: int) -> memoryview | None:
        """The whole of a line that is longer than a message; None where there is no memory for it."""
        line = None
        with suppress(MemoryError):
            line = memoryview(bytearray(length))
            line[:PIECE] = self._message[LINE.size :]
        done = PIECE
        while done < length:
            done += self._control.recv_into(self._message if line is None else line[done:])
        return line

    def _run(self, line: memoryview | None, results: int, printed: int) -> NoReturn:
        os.closerange(CONTROL, NOTE + 1)
        os.setpgid(0, 0)  # os.kill(0, …) reaches this child's own group alone
        setrlimit(RLIMIT_CPU, self._cpu)
        self._output.lead_to(-1, printed, self._stdout_bytes, watch_descriptors=False)
        try:
            if line is None:
                raise MemoryError
            self._child.grade_one(bytes(line), results)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        os._exit(0)


def _wipe(memory: memoryview) -> None:
    for start in range(0, len(memory), PIECE):
        part = memory[start : start + PIECE]
        part[:] = _ZEROS[: len(part)]
