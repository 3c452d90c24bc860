"""The host's end of the channel to a sandbox's guest: frames in both directions, each awaited until a deadline."""

import select
import socket
from collections.abc import Callable
from time import monotonic

from sandbox.errors import Stopped
from sandbox.grading.processor_watch import ProcessorWatch
from sandbox.guest.protocol.frames import CRASHED, FRAME, MAX_REPLY, ORPHANED, TAINTED

_SEND_S = 20.0
_READ_BYTES = 1 << 16
_STOPPING_S = 0.2  # between two calls of `stopping`

Stopping = Callable[[], bool]
"""Returns True to cancel the call. It is called at least each 0.25 s while waiting for a sandbox."""


class Ended(Exception):
    """The sandbox is unusable. `overdue`: it did not answer in time. `tainted`: the guest gave up, because what it has
    done could affect what it would do next. `orphaned`: it gave up in the middle of a line, because the process that
    had loaded the grader has ended. `crash`: it gave up in the middle of a line, whose process ended so.
    """

    def __init__(
        self, message: str, overdue: bool = False, tainted: bool = False, orphaned: bool = False, crash: str = ""
    ) -> None:
        super().__init__(message)
        self.overdue = overdue
        self.tainted = tainted
        self.orphaned = orphaned
        self.crash = crash


class SandboxChannel:
    """Frames to and from a guest, which are limited in size."""

    def __init__(self, end: socket.socket, watch: ProcessorWatch) -> None:
        """`watch` looks at the sandbox while the channel waits."""
        self._end = end
        self._watch = watch
        self._received = bytearray()  # bytes of frames that are not processed yet
        self._ask_at = 0.0  # when `stopping` is called next

    def is_closed(self) -> bool:
        """Whether the guest has closed its end."""
        closed = select.poll()
        closed.register(self._end, select.POLLRDHUP)
        return bool(closed.poll(0))

    def has_received(self) -> bool:
        """Whether a part of the next frame was received already."""
        return bool(self._received)

    def send(self, kind: int, payload: bytes = b"", stopping: Stopping | None = None) -> None:
        """Sends a frame.

        Raises:
            Ended: the guest does not receive it in time, or is gone.
            Stopped: `stopping` returned True.
        """
        waiting = memoryview(FRAME.pack(kind, len(payload)) + payload)
        deadline = monotonic() + _SEND_S
        while waiting:
            if not self._may_wait(deadline, stopping):
                raise Ended(f"the sandbox accepts no data: {len(waiting)} bytes are left after {_SEND_S:g} s")
            try:
                waiting = waiting[self._end.send(waiting) :]
            except TimeoutError:
                continue
            except OSError as error:
                raise Ended(f"the sandbox accepts no data: {error}") from error

    def send_descriptor(self, kind: int, descriptor: int) -> None:
        """Sends an empty frame with a descriptor. Raises Ended if the guest is gone."""
        try:
            socket.send_fds(self._end, [FRAME.pack(kind, 0)], [descriptor])
        except OSError as error:
            raise Ended(f"the sandbox accepts no data: {error}") from error

    def receive(self, deadline: float, stopping: Stopping | None = None) -> tuple[int, bytes]:
        """Receives the next frame: its kind, which is unchecked, and its payload.

        Raises:
            Ended: there is none in time, the guest is gone or has given up, or the frame is too long.
            Stopped: `stopping` returned True.
        """
        kind, length = FRAME.unpack(self._receive_bytes(FRAME.size, deadline, stopping))
        if length > MAX_REPLY:
            raise Ended(f"a frame of {length} bytes")
        payload = self._receive_bytes(length, deadline, stopping)
        if kind in (TAINTED, ORPHANED, CRASHED):
            why = payload[:200].decode("utf-8", "replace")
            crash = why if kind == CRASHED else ""
            raise Ended(f"the guest gave up: {why}", tainted=True, orphaned=kind == ORPHANED, crash=crash)
        return kind, payload

    def _receive_bytes(self, length: int, deadline: float, stopping: Stopping | None) -> bytes:
        while len(self._received) < length:
            if not self._may_wait(deadline, stopping):
                raise Ended("the sandbox did not answer in time", overdue=True)
            try:
                received = self._end.recv(_READ_BYTES)
            except TimeoutError:
                continue
            except OSError as error:
                raise Ended(f"the sandbox is gone: {error}") from error
            if not received:
                raise Ended("the sandbox is gone")
            self._received += received
        taken = bytes(self._received[:length])
        del self._received[:length]
        return taken

    def _may_wait(self, deadline: float, stopping: Stopping | None) -> bool:
        """Sets the socket's timeout to the deadline or to the next look; returns False after the deadline.

        Raises:
            Ended: the channel is closed.
            Stopped: `stopping` returned True.
        """
        now = monotonic()
        if now >= deadline:
            return False
        if now >= self._watch.look_at:
            self._watch.look()
        until = min(deadline, self._watch.look_at)
        if stopping is not None:
            if now >= self._ask_at:
                self._ask_at = now + _STOPPING_S
                if stopping():
                    raise Stopped("the caller no longer waits")
            until = min(until, self._ask_at)
        try:
            self._end.settimeout(max(0.001, until - now))
        except OSError as error:  # another thread has ended the sandbox, and closed its channel
            raise Ended(f"the sandbox is gone: {error}") from error
        return True
