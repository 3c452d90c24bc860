"""Whether a client reads what is written to it."""

from asyncio import AbstractEventLoop, TimerHandle, Transport

READ_S = 60.0  # in which a client reads at least READ_BYTES of what waits for it, or all that is left
READ_BYTES = 64 * 1024


class Reading:
    """Ends a connection whose client reads too little, also when it is closed and not read to its end."""

    def __init__(self, loop: AbstractEventLoop, transport: Transport) -> None:
        self._loop = loop
        self._transport = transport
        self._timer: TimerHandle | None = None
        self._unread = 0

    def watch(self) -> None:
        """Begins where it has not."""
        if self._timer is None:
            self._unread = self._transport.get_write_buffer_size()
            self._timer = self._loop.call_later(READ_S, self._look)

    def stop(self) -> None:
        """The client has caught up, or is gone."""
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
