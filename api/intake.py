"""Takes what is still to come of a long body from its connection itself, in a thread, as long as it comes fast.

The event loop would copy each piece twice and pass it to a thread: half of what an upload costs. What comes slowly is
left to it: a thread is there for those who keep it busy. The parser is then told of as many bytes as it did not see.
"""

import os
import select
import socket
from collections.abc import Callable
from time import monotonic

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

Take = Callable[[bytes | bytearray], None]

EXTENSION = "gradebox.intake"  # where a request's scope has its intake
BLOCK_BYTES = 512 * 1024
MOST_BYTES = 64 * 1024 * 1024  # in one go: telling the parser of them takes the event loop some milliseconds
MOST_S = 1.0  # in one go: then others may have the thread
PAUSE_MS = 20
RUSHES = 4  # at once

_WAKE_BYTES = 128 * 1024
_UNSEEN = bytes(BLOCK_BYTES)


class Intake:
    """What is still to come of the body of one request, whose length its head has told.

    Attributes:
        left: so many bytes.
    """

    _threads = CapacityLimiter(RUSHES)
    _rushes = 0  # under way: the limiter's own count lags behind, and nobody is to wait for a thread

    def __init__(self, protocol: HttpToolsProtocol, left: int) -> None:
        self.left = left
        self._protocol = protocol
        self._telling = False

    async def rush(self, take: Take) -> int:
        """Has `take` take what comes, in a thread, until it pauses. Returns how many bytes that were.

        It raises what `take` raises; nothing is taken twice then, and the rest of the body can be skipped.
        """
        protocol = self._protocol
        gone = protocol.parser is None or protocol.transport.is_closing()
        if gone or self.left < BLOCK_BYTES or Intake._rushes >= RUSHES:
            return 0
        rush = _Rush(min(self.left, MOST_BYTES))
        with socket.socket(fileno=os.dup(protocol.transport.get_extra_info("socket").fileno())) as connection:
            protocol.flow.pause_reading()
            here, protocol.cycle.body = protocol.cycle.body, bytearray()
            Intake._rushes += 1
            try:
                await run_sync(rush.run, connection, here, take, limiter=self._threads)
            finally:
                Intake._rushes -= 1
                self._tell_parser(rush.came)
        return len(here) + rush.came

    def come(self, size: int) -> bool:
        """Notes so many bytes that passed the parser; False where they were taken already."""
        self.left -= size
        return not self._telling

    def _tell_parser(self, size: int) -> None:
        self._telling = True
        while size > 0 and self._protocol.parser is not None:
            self._protocol.parser.feed_data(_UNSEEN[:size])
            size -= BLOCK_BYTES
        self._telling = False


class _Rush:
    """Reads a connection, at most so many bytes, as long as they come."""

    def __init__(self, most: int) -> None:
        self.came = 0
        self._most = most
        self._poll = select.poll()

    def run(self, connection: socket.socket, here: bytearray, take: Take) -> None:
        """`here` is what came before."""
        if here:
            take(here)
        self._poll.register(connection, select.POLLIN)
        block = bytearray(BLOCK_BYTES)
        wanted = filled = 0
        ends = monotonic() + MOST_S
        try:
            while filled == wanted and monotonic() < ends and (wanted := min(BLOCK_BYTES, self._most - self.came)):
                filled = self._fill(connection, memoryview(block)[:wanted])
                self.came += filled
                if filled:
                    take(block if filled == BLOCK_BYTES else block[:filled])
        finally:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)

    def _fill(self, connection: socket.socket, view: memoryview) -> int:
        """Returns how much came: less than the whole where it came slowly, or the connection broke."""
        filled, paused = 0, False
        while filled < len(view) and not paused:
            # One wake for many packets.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, min(len(view) - filled, _WAKE_BYTES))
            paused = not self._poll.poll(PAUSE_MS)
            try:
                came = connection.recv_into(view[filled:], flags=socket.MSG_DONTWAIT)
            except OSError:  # nothing more is there, or the connection broke: the event loop will see
                break
            filled += came
            paused |= not came
        return filled
