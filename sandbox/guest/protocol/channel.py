"""How the supervisor comes to its channel to the host.

It inherits it where a backend can hand over a socket. A container engine cannot: there the supervisor connects to a
socket that is mounted into the container, or speaks over its standard streams. Either way the host then sends the
seccomp program that takes the means to connect away, and nobody's code has run before that.
"""

import _socket as socket  # what `socket` wraps: importing that takes a cold sandbox 3 ms
import os
from typing import Any, Protocol

from sandbox.guest.kernel import lockdown
from sandbox.guest.protocol.frames import FILTER, FRAME

STREAMS = "-"  # named in the place of a socket's path
_UNASKED = "HOSTNAME"  # what container engines put into every environment


class Channel(Protocol):
    """What the supervisor needs of a socket."""

    def fileno(self) -> int:
        """Where something to be read is to be waited for."""

    def recvmsg(self, size: int, ancillary_size: int, flags: int, /) -> tuple[bytes, list[Any], int, Any]:
        """Some bytes, and descriptors that came with them."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """How many bytes it has put into the buffer; 0 when the host has closed."""

    def sendall(self, data: bytes, /) -> None:
        """Sends all of it."""


class Streams:
    """Two pipes in a socket's place. They carry no descriptors."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading = reading
        self._writing = writing

    def fileno(self) -> int:
        """Where something to be read is to be waited for."""
        return self._reading

    def recvmsg(self, size: int, _ancillary_size: int, _flags: int) -> tuple[bytes, list[Any], int, Any]:
        """Some bytes."""
        return os.read(self._reading, size), [], 0, None

    def recv_into(self, buffer: memoryview) -> int:
        """How many bytes it has put into the buffer; 0 when the host has closed."""
        return os.readv(self._reading, [buffer])

    def sendall(self, data: bytes) -> None:
        """Sends all of it."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._writing, view) :]


def take_channel(where: str) -> Channel:
    """The channel: descriptor 0 where nothing is named, else what is named, with the host's filter laid on."""
    if not where:
        return socket.socket(fileno=os.dup(0))
    channel: Channel
    if where == STREAMS:
        channel = Streams(os.dup(0), os.dup(1))
    else:
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(where)
        channel = connected
    os.environ.pop(_UNASKED, None)
    lockdown.filter_calls(_filter(channel))
    return channel


def _filter(channel: Channel) -> bytes:
    kind, length = FRAME.unpack(_receive(channel, FRAME.size))
    if kind != FILTER:
        os._exit(1)
    return _receive(channel, length)


def _receive(channel: Channel, length: int) -> bytes:
    buffer = bytearray(length)
    view = memoryview(buffer)
    while view:
        received = channel.recv_into(view)
        if not received:
            os._exit(0)
        view = view[received:]
    return bytes(buffer)
