"""One API process, until SIGTERM."""

import gc
import signal
import socket
from types import FrameType

from api import unknown_settings
from api.http.server import server
from api.services import Services
from api.settings import ApiSettings
from runtime import tracing
from runtime.starting import allow_files, start, wait_for
from runtime.supervised import is_supervised
from sandbox.counts import Counts
from sandbox.pool import Pool, open_pool
from storage.settings import StorageSettings
from storage.store import Store, first_start, open_store


def main() -> int:
    """Opens the store and sandboxes, and serves. Returns the exit code."""
    return start("api", _run)


def _run() -> None:
    unknown_settings.warn()
    allow_files()
    with open_pool(resets_later=True, counts=Counts("api")) as pool:
        _serve(ApiSettings(), wait_for(_open_store), pool)


def _serve(settings: ApiSettings, store: Store, pool: Pool) -> None:
    passed = None if settings.socket_fd is None else [socket.socket(fileno=settings.socket_fd)]
    services = Services(store, pool, settings)
    serving = server(services, settings.host, settings.port)

    def stop(_number: int, _frame: FrameType | None) -> None:
        serving.should_exit = True

    # What is there now stays: without this, a collection looks at all of FastAPI's objects again and again.
    gc.collect()
    gc.freeze()
    # uvicorn raises the signals that stopped it once more when it is done; a stop in good order is to exit with 0.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    services.presence.start()
    serving.run(sockets=passed)
    services.requests.refusals.tell()
    services.presence.end()
    services.asker.close()
    tracing.stop()


def _open_store() -> Store:
    settings = StorageSettings()
    store = open_store(settings)
    if is_supervised():  # elsewhere the service waits: `/readyz` says what for
        store.spool.check_usable()
    first_start(store, settings)
    return store
