"""Resources that a sandbox must not reach, and a check that it did not."""

import os
import secrets
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

_VARIABLE = "CANARY_SECRET"
_SECRET = "s3cr3t-canary"  # noqa: S105  # a canary, kept where no grader may find it


class LocalServers:
    """Listens on an abstract socket and on ports of the loopback."""

    def __init__(self) -> None:
        self.connections: list[str] = []
        self.name = f"canary_{secrets.token_hex(8)}"  # unique to this run, because others may run at the same time
        abstract = socket.socket(socket.AF_UNIX)
        abstract.bind(f"\0{self.name}")
        self._sockets = [abstract]
        self.port = self._loopback(socket.AF_INET, "127.0.0.1", 0)
        with suppress(OSError):  # a machine without IPv6
            self._loopback(socket.AF_INET6, "::1", self.port)
        for listener in self._sockets:
            listener.listen()
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _loopback(self, family: socket.AddressFamily, address: str, port: int) -> int:
        listener = socket.socket(family)
        listener.bind((address, port))
        self._sockets.append(listener)
        return int(listener.getsockname()[1])

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                _, peer = listener.accept()
                self.connections.append(f"somebody got through to a socket of the host: {peer}")

    def close(self) -> None:
        """Stops listening."""
        for listener in self._sockets:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            listener.close()


class Surroundings:
    """Resources of this machine, by their placeholders in the sources (`canaries`), and a check of what is left."""

    def __init__(self, listeners: LocalServers, folder: Path) -> None:
        self._listeners = listeners
        self._folder = folder
        secret = folder / "secret"
        secret.write_text(_SECRET)
        self.canaries = {
            "CANARY_HOSTNAME": socket.gethostname(),
            "CANARY_FILE": str(secret),
            "6379": str(listeners.port),
            "canary_socket": listeners.name,
        }

    def left(self) -> list[str]:
        """Reports what the sandboxes left behind or reached, after all of them have ended."""
        faults = list(self._listeners.connections)
        faults += [f"a temporary file is left: {path}" for path in self._folder.iterdir() if path.name != "secret"]
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        faults += [f"a mount is left: {line}" for line in mounts if str(self._folder) in line]
        return faults


@contextmanager
def surroundings() -> Iterator[Surroundings]:
    """Sets up local servers, secrets in the environment and in a file, and a temporary folder that must stay empty."""
    with tempfile.TemporaryDirectory(prefix="gradebox-hostile-") as folder, closing(LocalServers()) as listeners:
        Path(folder).chmod(0o755)  # so that only isolation prevents the file from being read
        before, tempfile.tempdir = tempfile.tempdir, folder
        secret_before = os.environ.get(_VARIABLE)
        os.environ[_VARIABLE] = _SECRET
        try:
            yield Surroundings(listeners, Path(folder))
        finally:
            if secret_before is None:
                os.environ.pop(_VARIABLE, None)
            else:
                os.environ[_VARIABLE] = secret_before
            tempfile.tempdir = before
