"""The main function of one API process, which runs until SIGTERM."""

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
from sandbox.pool.counts import Counts
from sandbox.pool.pool import Pool, open_pool
from storage.connection import is_away
from storage.settings import StorageSettings
from storage.store import Store, first_start, open_store


def main() -> int:
    """Opens the store and the sandbox pool, and serves. Returns the exit code."""
    return start("api", _run)


def _run() -> None:
    unknown_settings.warn()
    allow_files()
    with open_pool(counts=Counts("api")) as pool:
        _serve(ApiSettings(), wait_for(_open_store, is_away), pool)


def _serve(settings: ApiSettings, store: Store, pool: Pool) -> None:
    passed = None if settings.socket_fd is None else [socket.socket(fileno=settings.socket_fd)]
    services = Services(store, pool, settings)
    serving = server(services, settings.host, settings.port)

    def stop(_number: int, _frame: FrameType | None) -> None:
        serving.should_exit = True

    # Freeze the objects created so far. Otherwise each garbage collection traverses all of FastAPI's objects again.
    gc.collect()
    gc.freeze()
    # uvicorn re-raises the signals that stopped it when it is done. After an orderly stop, the exit code is to be 0.
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
    if is_supervised():  # otherwise the service waits, and `/readyz` reports the reason
        store.spool.check_usable()
    first_start(store, settings)
    return store
