"""Opens the supervisor's channel to the host.

The supervisor inherits the channel if the backend can pass a socket. A container engine cannot: there the supervisor
connects to a socket that is mounted into the container, or uses its standard streams. In both cases the host then sends
the seccomp program that removes the means to connect, and no user code has run before that.
"""

import _socket as socket  # the C module: importing `socket` costs a cold sandbox 3 ms
import os
from typing import Any, Protocol

from sandbox.guest.kernel import lockdown
from sandbox.guest.protocol.frames import FILTER, FRAME

STREAMS = "-"  # given in place of a socket's path
_ENGINE_VARIABLE = "HOSTNAME"  # set by container engines in every environment


class Channel(Protocol):
    """The socket methods that the supervisor uses."""

    def fileno(self) -> int:
        """The descriptor to poll for input."""

    def recvmsg(self, size: int, ancillary_size: int, flags: int, /) -> tuple[bytes, list[Any], int, Any]:
        """Receives some bytes, and the descriptors sent with them."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """Receives into the buffer. Returns the number of bytes, 0 if the host has closed the channel."""

    def sendall(self, data: bytes, /) -> None:
        """Sends all of the data."""


class Streams:
    """Two pipes in place of a socket. They carry no descriptors."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading = reading
        self._writing = writing

    def fileno(self) -> int:
        """The descriptor to poll for input."""
        return self._reading

    def recvmsg(self, size: int, _ancillary_size: int, _flags: int) -> tuple[bytes, list[Any], int, Any]:
        """Receives some bytes."""
        return os.read(self._reading, size), [], 0, None

    def recv_into(self, buffer: memoryview) -> int:
        """Receives into the buffer. Returns the number of bytes, 0 if the host has closed the channel."""
        return os.readv(self._reading, [buffer])

    def sendall(self, data: bytes) -> None:
        """Sends all of the data."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._writing, view) :]


def take_channel(where: str) -> Channel:
    """Opens the channel at `where` and installs the host's filter. If `where` is empty, the channel is descriptor 0."""
    if not where:
        return socket.socket(fileno=os.dup(0))
    channel: Channel
    if where == STREAMS:
        channel = Streams(os.dup(0), os.dup(1))
    else:
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(where)
        channel = connected
    os.environ.pop(_ENGINE_VARIABLE, None)
    lockdown.filter_calls(_filter(channel))
    return channel


def _filter(channel: Channel) -> bytes:
    kind, length = FRAME.unpack(receive(channel, FRAME.size))
    if kind != FILTER:
        os._exit(1)
    return receive(channel, length)


def receive(channel: Channel, length: int) -> bytes:
    """Receives this many bytes. Ends the process if the host has closed the channel."""
    buffer = bytearray(length)
    view = memoryview(buffer)
    while view:
        received = channel.recv_into(view)
        if not received:
            os._exit(0)
        view = view[received:]
    return bytes(buffer)
