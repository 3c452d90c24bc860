"""How a process of the service starts, API and worker alike, and what its exit code says where it cannot."""

import os
import time
from collections.abc import Callable

import structlog
from pydantic import ValidationError
from redis.exceptions import ConnectionError as RedisConnectionError

from gradebox.service.logs import configure
from gradebox.service.settings import fault_of
from sandbox.errors import IsolationUnavailable
from storage.errors import UnknownFormat
from storage.store import Store
from worker import threads, tracing
from worker.supervised import stop_with_parent

UNSAFE_HERE = 3
UNKNOWN_FORMAT = 4
WRONG_SETTING = 5
_REDIS_WAIT_S = 1.0

_log = structlog.get_logger(__name__)


def start(role: str, run: Callable[[], None]) -> int:
    """Makes ready what every process has, and runs it. Returns the exit code."""
    stop_with_parent()
    os.umask(0o077)  # threads and outcomes in the spool are for this user alone
    configure(role)
    threads.watch()
    tracing.start(role)
    try:
        run()
    except IsolationUnavailable as error:
        _log.error(f"no sandbox is safe here: {error}")
        return UNSAFE_HERE
    except UnknownFormat as error:
        _log.error(str(error))
        return UNKNOWN_FORMAT
    except ValidationError as error:
        if not error.title.endswith("Settings"):
            raise
        _log.error(fault_of(error))
        return WRONG_SETTING
    return 0


def wait_for(open_store: Callable[[], Store]) -> Store:
    """The store, when Redis answers. Raises UnknownFormat."""
    while True:
        try:
            return open_store()
        except RedisConnectionError as error:
            _log.warning("Redis does not answer, trying again", error=str(error))
            time.sleep(_REDIS_WAIT_S)
