"""One worker process, until SIGTERM."""

import os
import time

import structlog
from redis.exceptions import ConnectionError as RedisConnectionError

from gradebox.service.logs import configure
from sandbox.errors import IsolationUnavailable
from sandbox.pool import Pool, open_pool
from storage.errors import UnknownFormat
from storage.janitor import Janitor
from storage.settings import StorageSettings
from storage.store import Store, open_store
from worker import tracing
from worker.dispatch import Dispatch
from worker.heartbeat import Heartbeat
from worker.janitor import JanitorThread
from worker.process import Process
from worker.publisher import Publisher
from worker.runtime import Runtime, use
from worker.settings import WorkerSettings
from worker.supervised import stop_with_parent

UNSAFE_HERE = 3
UNKNOWN_FORMAT = 4
_REDIS_WAIT_S = 1.0

_log = structlog.get_logger("worker")


def main() -> int:
    """Opens sandboxes and works. Returns the exit code."""
    stop_with_parent()
    configure("worker")
    tracing.start("worker")
    settings, own = StorageSettings(), WorkerSettings()
    os.nice(own.nice)  # sandboxes have it too
    try:
        with open_pool() as pool:
            _run(settings, own, _wait_for_store(settings), pool)
    except IsolationUnavailable as error:
        _log.error(f"no sandbox is safe here: {error}")
        return UNSAFE_HERE
    except UnknownFormat as error:
        _log.error(str(error))
        return UNKNOWN_FORMAT
    return 0


def _run(settings: StorageSettings, own: WorkerSettings, store: Store, pool: Pool) -> None:
    dispatch = Dispatch(store)
    heartbeat = Heartbeat(store, dispatch)
    runtime = Runtime(store, pool, dispatch, heartbeat)
    use(runtime)
    publisher = Publisher("worker", store, pool, runtime.counts)
    heartbeat.start()
    publisher.start()
    janitor = JanitorThread(Janitor(store, settings.retention_s))
    janitor.start()
    _log.info("waiting for batches")
    try:
        Process(runtime, settings.redis_url, own.stop_s).run()
    finally:
        janitor.end()
        heartbeat.end()
        publisher.end()
        tracing.stop()


def _wait_for_store(settings: StorageSettings) -> Store:
    while True:
        try:
            return open_store(settings)
        except RedisConnectionError as error:
            _log.warning("Redis does not answer, trying again", error=str(error))
            time.sleep(_REDIS_WAIT_S)
