"""One API process, until SIGTERM."""

import gc
import resource
import signal
import socket
import time
from types import FrameType

import structlog
from redis.exceptions import ConnectionError as RedisConnectionError

from api.server import server
from api.services import Services
from api.settings import ApiSettings
from gradebox.service.logs import configure
from sandbox.errors import IsolationUnavailable
from sandbox.pool import Pool, open_pool
from storage.errors import UnknownFormat
from storage.settings import StorageSettings
from storage.store import Store, first_start, open_store
from worker import tracing
from worker.supervised import stop_with_parent

FILES = 65_536
UNSAFE_HERE = 3
UNKNOWN_FORMAT = 4
_REDIS_WAIT_S = 1.0

_log = structlog.get_logger("api")


def main() -> int:
    """Opens the store and sandboxes, and serves. Returns the exit code."""
    stop_with_parent()
    _allow_files()
    configure("api")
    tracing.start("api")
    try:
        with open_pool(resets_later=True) as pool:
            _serve(ApiSettings(), _wait_for_store(StorageSettings()), pool)
    except IsolationUnavailable as error:
        _log.error(f"no sandbox is safe here: {error}")
        return UNSAFE_HERE
    except UnknownFormat as error:
        _log.error(str(error))
        return UNKNOWN_FORMAT
    return 0


def _allow_files() -> None:
    """As many as the system lets us: each connection is one, and has some open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, FILES) if hard > 0 else FILES, hard))


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
    services.publisher.start()
    serving.run(sockets=passed)
    services.publisher.end()
    tracing.stop()


def _wait_for_store(settings: StorageSettings) -> Store:
    while True:
        try:
            store = open_store(settings)
            first_start(store, settings)
        except RedisConnectionError as error:
            _log.warning("Redis does not answer, trying again", error=str(error))
            time.sleep(_REDIS_WAIT_S)
        else:
            return store
