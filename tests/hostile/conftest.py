"""A pool to be attacked, with something to find around it, and a look at what it leaves behind."""

import secrets
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from sandbox.pool import Pool
from tests.backends import NAMES, backend_of, settings_for
from tests.watched import Watched


class Listeners:
    """What a sandbox must not be able to reach: an abstract socket, and ports of the loopback."""

    def __init__(self) -> None:
        self.connections: list[str] = []
        self.name = f"canary_{secrets.token_hex(8)}"  # of this run's own: others may run beside it
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
                self.connections.append(str(peer))

    def close(self) -> None:
        for listener in self._sockets:
            listener.close()


@pytest.fixture(scope="session")
def listeners() -> Iterator[Listeners]:
    listeners = Listeners()
    yield listeners
    listeners.close()


@pytest.fixture(scope="session")
def canaries(listeners: Listeners) -> dict[str, str]:
    """What the sources call a thing of this machine, and its real name."""
    return {"CANARY_HOSTNAME": socket.gethostname(), "6379": str(listeners.port), "canary_socket": listeners.name}


@pytest.fixture(scope="session", params=NAMES)
def attacked(
    request: pytest.FixtureRequest, listeners: Listeners, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pool]:
    """Sandboxes; when the last test has ended, nothing may be left of them, and nobody may have called."""
    with pytest.MonkeyPatch.context() as patch:
        temporary = tmp_path_factory.mktemp("attacked")
        patch.setattr(tempfile, "tempdir", str(temporary))
        patch.setenv("CANARY_SECRET", "s3cr3t-canary")
        settings = settings_for(request.param, load_s=4)
        backend = Watched(backend_of(request.param)(settings))
        with Pool(backend, settings) as pool:
            yield pool
        assert backend.started
        assert backend.left() == []
        assert list(temporary.iterdir()) == []
        assert listeners.connections == []
