"""Detects clients that do not read what is written to them."""

from asyncio import AbstractEventLoop, TimerHandle, Transport

READ_S = 60.0  # in this time a client has to read READ_BYTES of what is written, or all that is left
READ_BYTES = 64 * 1024


class Reading:
    """Aborts a connection whose client reads too little, also after the connection was closed."""

    def __init__(self, loop: AbstractEventLoop, transport: Transport) -> None:
        self._loop = loop
        self._transport = transport
        self._timer: TimerHandle | None = None
        self._unread = 0

    def watch(self) -> None:
        """Starts watching, unless already started."""
        if self._timer is None:
            self._unread = self._transport.get_write_buffer_size()
            self._timer = self._loop.call_later(READ_S, self._look)

    def stop(self) -> None:
        """Stops watching: the client has caught up, or has disconnected."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        unread = self._transport.get_write_buffer_size()
        if unread and unread > self._unread - READ_BYTES:
            self._transport.abort()
        elif unread:
            self.watch()
