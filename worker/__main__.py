"""`python -m worker`: one worker process, until SIGTERM."""

import logging
import sys
import time

from redis.exceptions import ConnectionError as RedisConnectionError

from sandbox.errors import IsolationUnavailable
from sandbox.pool import Pool, open_pool
from storage.errors import UnknownFormat
from storage.settings import StorageSettings
from storage.store import Store, open_store
from worker.dispatch import Dispatch
from worker.heartbeat import Heartbeat
from worker.process import Process
from worker.runtime import Runtime, use
from worker.supervised import stop_with_parent

UNSAFE_HERE = 3
UNKNOWN_FORMAT = 4
_REDIS_WAIT_S = 1.0

_log = logging.getLogger("worker")


def main() -> int:
    """Opens sandboxes and works. Returns the exit code."""
    stop_with_parent()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    settings = StorageSettings()
    try:
        with open_pool() as pool:
            _run(settings, _wait_for_store(settings), pool)
    except IsolationUnavailable as error:
        _log.error("no sandbox is safe here: %s", error)
        return UNSAFE_HERE
    except UnknownFormat as error:
        _log.error("%s", error)
        return UNKNOWN_FORMAT
    return 0


def _run(settings: StorageSettings, store: Store, pool: Pool) -> None:
    dispatch = Dispatch(store)
    heartbeat = Heartbeat(store, dispatch)
    runtime = Runtime(store, pool, dispatch, heartbeat)
    use(runtime)
    heartbeat.start()
    _log.info("waiting for batches")
    try:
        Process(runtime, settings.redis_url).run()
    finally:
        heartbeat.end()


def _wait_for_store(settings: StorageSettings) -> Store:
    while True:
        try:
            return open_store(settings)
        except RedisConnectionError as error:
            _log.warning("Redis does not answer, trying again: %s", error)
            time.sleep(_REDIS_WAIT_S)


if __name__ == "__main__":
    sys.exit(main())
