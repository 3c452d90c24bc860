"""The output of a completion: standard output and error together, kept per completion.

It goes through a pipe that both the child and the supervisor can read. The child empties it after each completion. The
supervisor empties it when it is full, so that a process that prints a lot need not wait, and after the child has died,
so that output before a crash is not lost.
"""

from __future__ import annotations

import fcntl
import io
import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FIONREAD = 0x541B  # `termios` has it, but is not imported for one number
_TWO_PAGES = 2 * os.sysconf("SC_PAGE_SIZE")
MOST = 1 << 16
_AGAIN = b"\0graded again\0"  # what was printed before it does not count
# What the handler of `faulthandler` prints of one thread each: see `sandbox/guest/supervisor/timeout_line.py`. It may
# follow text without an end of a line. Each repetition is bounded: a grader can print anything.
PLACE = re.compile(rb"(?:Current thread|Thread) 0x[0-9a-f]{1,16}(?: \[.{0,100}\])? \(most recent call first\):\n")
# All that it prints at once: the frames of each thread, and an empty line between two threads.
_FRAMES = rb"(?:  (?:File .{1,1200}|\.\.\.|<.{1,100}>|Garbage-collecting)\n)*"
_PLACES = re.compile(PLACE.pattern + _FRAMES + rb"(?:\n" + PLACE.pattern + _FRAMES + rb")*")

# A source without any of these words prints only through sys.stdout, whose state can be read without a system call,
# does not replace it, and forks no process.
_SYSTEM_WORDS = (
    "__import__", "builtins", "ctypes", "eval", "exec", "fileno", "fork", "import_module", "modules", "multiprocessing",
    "os", "pty", "signal", "socket", "stderr", "stdin", "stdout", "subprocess", "test", "venv",
)  # fmt: skip


def may_touch_system(text: str) -> bool:
    """Whether a source might print by other means than `sys.stdout`, replace it, or fork."""
    return any(word in text for word in _SYSTEM_WORDS)


def make_pipe() -> tuple[int, int]:
    """Creates a pipe. Returns the reading end, which never blocks, and the writing end."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(reading, False)
    return reading, writing


def waiting(reading: int) -> int:
    """The number of bytes in the pipe; also 0 if the pipe was closed or replaced."""
    size = bytearray(4)
    try:
        fcntl.ioctl(reading, _FIONREAD, size)
    except OSError:
        return 0
    return int.from_bytes(size, sys.byteorder)


def is_full(reading: int) -> bool:
    """Whether a process may be waiting to print more.

    A pipe usually holds 64 KiB, and less if its user has many pipes. Two consecutive writes that do not fit into one
    page together take more than one page, so a process that waits has filled at least half of the pipe. However, a pipe
    of one page may be full with one byte.
    """
    try:
        size = fcntl.fcntl(reading, fcntl.F_GETPIPE_SZ)
    except OSError:  # closed, or replaced by something that is no pipe
        return False
    return waiting(reading) >= (size // 2 if size >= _TWO_PAGES else 1)


def take(reading: int, most: int) -> bytes:
    """Empties the pipe. Returns at most `most` bytes of its content that counts."""
    if not waiting(reading):
        return b""
    try:
        return os.read(reading, MOST).rpartition(_AGAIN)[2][:most]
    except OSError:  # closed, replaced, or read by another process meanwhile
        return b""


def own(printed: bytes, micros: int, timeout_ms: int) -> bytes:
    """The output of a completion without the places that the supervisor asked for when a time was almost over.

    `micros` is how long the completion, or those that the process has graded up to it, have taken.
    """
    return printed if micros < timeout_ms * 500 else _PLACES.sub(b"", printed)


class _Allowance:
    """The number of bytes of a completion that may still be printed, on both streams together.

    `is_closed` is whether one has been closed.
    """

    left = 0
    is_closed = False


class _Capped(io.FileIO):
    """A stream that accepts any amount and passes on what is allowed. Closing it leaves the other one open."""

    def __init__(self, descriptor: int, allowance: _Allowance) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._allowance = allowance

    def close(self) -> None:
        self._allowance.is_closed = True
        super().close()

    def seekable(self) -> bool:
        return False  # a pipe from the first completion on. `reconfigure` would ask for a position in it

    def write(self, data: Buffer) -> int:
        view = memoryview(data).cast("B")
        allowance = self._allowance
        if allowance.left > 0:
            allowance.left -= super().write(view[: allowance.left])
        return len(view)


class ChildOutput:
    """Standard output and error of this process: one pair of streams for its lifetime, whichever pipe they lead to."""

    def __init__(self) -> None:
        self._reading = -1
        self._most = 0
        self._watch = False
        self._allowance = _Allowance()
        # Written through, so that output before a crash is not lost, and that of both is in order.
        for name, descriptor in (("stdout", 1), ("stderr", 2)):
            raw = _Capped(descriptor, self._allowance)
            text = io.TextIOWrapper(raw, "utf-8", "backslashreplace", write_through=True)
            setattr(sys, name, text)
            setattr(sys, f"__{name}__", text)

    def lead_to(self, reading: int, writing: int, most: int, watch_descriptors: bool) -> None:
        """Directs output from now on into this pipe, at most `most` bytes of each completion."""
        self._reading = reading
        self._allowance.left = self._most = most
        self._watch = watch_descriptors
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        os.close(writing)
        self._streams = sys.stdin, sys.stdout, sys.stderr  # the module body may have replaced them
        self._allowance.is_closed = False

    def restore_streams(self) -> bool:
        """Puts back the standard streams that a completion has replaced. Returns false if it closed one of output."""
        sys.stdin, sys.stdout, sys.stderr = self._streams
        return not self._allowance.is_closed

    def leave_to_supervisor(self, most: int) -> None:
        """Directs output from now on, at most `most` bytes, to descriptors 1 and 2. `take` returns nothing of it."""
        self._reading = -1
        self._allowance.left = self._most = most
        self._watch = False

    def may_hold(self) -> bool:
        """Whether anything may have been printed since `take`."""
        return self._watch or self._allowance.left != self._most

    def begin_again(self) -> None:
        """The completion is graded again: what it has printed so far does not count."""
        if self._reading < 0 or self.may_hold():  # the supervisor also takes what programs have printed
            with suppress(OSError):  # closed
                os.write(1, _AGAIN)
        self._allowance.left = self._most

    def take(self) -> bytes:
        """Returns the output since the last call; nothing if it is left to the supervisor."""
        self._allowance.left = self._most
        return take(self._reading, self._most) if self._reading >= 0 else b""
