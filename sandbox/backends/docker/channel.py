"""The connection between host and guest: a socket that is mounted into the container, or the engine's stream."""

import os
import select
import shutil
import socket
import struct
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from sandbox.errors import InfrastructureError

_PREFIX = "gradebox-channel-"
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_FRAME = struct.Struct("!BxxxI")  # header in the engine's stream: descriptor, number of bytes
_STDOUT = 1
_PART = 1 << 16
_STALE_S = 600.0  # no sandbox takes that long to start


class Listener:
    """A socket in a folder that only this user can enter. It exists until the guest has connected, and no longer."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
        self.path = self._folder / "socket"
        self._socket = socket.socket(socket.AF_UNIX)
        # A socket's path may have 107 bytes, and the operator chooses the folder.
        opened = os.open(self._folder, os.O_PATH | os.O_CLOEXEC)
        try:
            self._socket.bind(f"/proc/self/fd/{opened}/socket")
        finally:
            os.close(opened)
        self.path.chmod(0o666)  # the sandbox runs as another user; any other process must enter the folder first
        self._socket.listen(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def accept(self, pid: int, seconds: float) -> socket.socket:
        """Returns the channel to the first process that connects; no process can connect after that.

        Raises:
            InfrastructureError: no process connected in time, or another one than `pid`. A pid that is not visible here
                is not compared.
        """
        ready, _, _ = select.select([self._socket], [], [], seconds)
        if not ready:
            raise InfrastructureError("the guest did not connect to the socket that is mounted into its container")
        channel, _ = self._socket.accept()
        reported = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        peer, uid, _ = _CREDENTIALS.unpack(reported)
        if pid and peer not in (0, pid):
            channel.close()
            raise InfrastructureError(f"process {peer} of user {uid} connected instead of the sandbox, process {pid}")
        return channel


def remove_stale(folder: Path | None) -> None:
    """Removes the folders of services that were killed while a sandbox was starting."""
    for found in Path(folder or tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it belongs to another user, or was removed meanwhile
            if time.time() - found.stat().st_mtime > _STALE_S:
                shutil.rmtree(found)


class Attached:
    """The engine's stream of a container's standard input and output, presented as a socket: `channel`."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        stream.settimeout(None)
        self.channel, self._inner = socket.socketpair()
        self._copies = [
            threading.Thread(target=copy, name="sandbox-stream", daemon=True)
            for copy in (self._copy_in, self._copy_out)
        ]
        for copy in self._copies:
            copy.start()

    def close(self) -> None:
        """Ends the stream, and with it the guest's standard input."""
        self.channel.close()
        self._shut_down()
        for copy in self._copies:
            copy.join()
        self._stream.close()
        self._inner.close()

    def _copy_in(self) -> None:
        with suppress(OSError):
            while part := self._inner.recv(_PART):
                self._stream.sendall(part)
        self._shut_down()

    def _copy_out(self) -> None:
        with suppress(OSError):
            while True:
                kind, length = _FRAME.unpack(self._exactly(_FRAME.size))
                while length:
                    part = self._exactly(min(length, _PART))
                    length -= len(part)
                    if kind == _STDOUT:
                        self._inner.sendall(part)
        self._shut_down()

    def _exactly(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            part = self._stream.recv(length - len(data))
            if not part:
                raise ConnectionError("the engine closed the stream")
            data += part
        return data

    def _shut_down(self) -> None:
        for end in (self._stream, self._inner):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
