"""Completion isolation in the template: a process for each line, forked when the line is there, gone before the next.

The line comes into a buffer of the template, where the child finds it, and is wiped out before the next fork.
Most of what a completion costs are the copies of pages that a child makes by writing to them. So all that can be is
made ahead of the fork, and what comes after it is short.
"""

import gc
import os
from _socket import CMSG_LEN, MSG_CMSG_CLOEXEC, socket
from collections.abc import Iterator
from contextlib import suppress
from resource import RLIMIT_CPU, setrlimit
from struct import Struct
from typing import NoReturn

from sandbox.guest.child import Child
from sandbox.guest.frames import Limits
from sandbox.guest.output import Output
from sandbox.guest.reaping import reap_all
from sandbox.guest.signals import Handlers, put_back

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
_ZEROS = memoryview(bytes(LINE.size + PIECE))


class Single:
    """What receives lines and forks."""

    def __init__(self, control: socket, limits: Limits, child: Child, output: Output, handlers: Handlers) -> None:
        self._control = control
        self._handlers = handlers
        self._child = child
        seconds = 2 * limits.timeout_ms // 1000 + 2
        self._cpu = (seconds, seconds)
        self._message = memoryview(bytearray(LINE.size + PIECE))
        output.leave_to_supervisor(limits.stdout_bytes)

    def serve(self) -> NoReturn:
        """Does what the supervisor asks, until it has gone."""
        gc.freeze()
        try:
            self._child.grade_one(self._processes().__next__)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        os._exit(0)

    def _processes(self) -> Iterator[tuple[bytes, int]]:
        """Forks a process for each line that comes: there, the line is yielded, and where its record goes."""
        # What a child does lies here in one function, by names that are local: each object that it comes by is a page
        # to copy. It is a generator, since to leave a function is to write to all that it has held.
        receive, send, message = self._control.recvmsg_into, self._control.send, self._message
        cpu, parts, zeros, piece = self._cpu, (message,), _ZEROS, PIECE
        fork, set_group, limit, lead, close = os.fork, os.setpgid, setrlimit, os.dup2, os.closerange
        first, end, what = CONTROL, NOTE + 1, RLIMIT_CPU
        write, shut, wait, reap, no_memory = os.pwrite, os.close, os.waitpid, reap_all, _no_memory
        handlers, restore, open_file, null, both = self._handlers, put_back, os.open, "/dev/null", os.O_RDWR
        unpack_head, unpack_rights, pack = LINE.unpack_from, RIGHTS.unpack, STATUS.pack
        head_size, cloexec, room, exited = LINE.size, MSG_CMSG_CLOEXEC, _ANCILLARY, SAID_EXIT
        while True:
            size, ancillary, _, _ = receive(parts, room, cloexec)
            if size < head_size:
                self._obey(message[:size])
                continue
            _, length = unpack_head(message)
            ((_, _, rights),) = ancillary
            results, printed = unpack_rights(rights)
            line = message[head_size:size] if length <= piece else self._receive_rest(length)
            copy = line.tobytes if line is not None else no_memory
            pid = fork()
            if pid == 0:
                close(first, end)
                set_group(0, 0)  # os.kill(0, …) reaches this child's own group alone
                limit(what, cpu)
                if handlers:
                    restore(handlers)
                own = open_file(null, both)  # an open file of its own: flags that are set on one stay there
                lead(own, 0)
                shut(own)
                lead(printed, 1)
                lead(printed, 2)
                yield copy(), results
                return
            write(NOTE, pack(pid), 0)
            shut(results)
            shut(printed)
            _, status = wait(pid, 0)
            message[:size] = zeros[:size]
            if line is not None and length > piece:
                _wipe(line)
            line, copy = None, no_memory
            reap()
            send(exited + pack(status))

    def _obey(self, message: memoryview) -> None:
        if message != SWEEP:
            os._exit(0)  # the supervisor has gone
        reap_all()
        self._control.send(SAID_SWEPT + STATUS.pack(NO_STATUS))

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


def _no_memory() -> bytes:
    raise MemoryError


def _wipe(memory: memoryview) -> None:
    for start in range(0, len(memory), PIECE):
        part = memory[start : start + PIECE]
        part[:] = _ZEROS[: len(part)]
