"""How a process of the service starts, API and worker alike, and what its exit code says where it cannot."""

import os
import time
from collections.abc import Callable
from typing import TypeVar

import structlog
from pydantic import ValidationError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from gradebox.service.logs import configure
from gradebox.service.settings import fault_of
from runtime import threads, tracing
from runtime.errors import CannotStart
from runtime.supervised import stop_with_parent

WRONG_SETTING = 5
_REDIS_WAIT_S = 1.0

_Store = TypeVar("_Store")
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
    except CannotStart as error:
        _log.error(f"{error.what}: {error}")
        return error.exit_code
    except ValidationError as error:
        if not error.title.endswith("Settings"):
            raise
        _log.error(fault_of(error))
        return WRONG_SETTING
    return 0


def wait_for(open_store: Callable[[], _Store]) -> _Store:
    """The store, when Redis answers. Raises what `open_store` raises, but for a Redis that does not answer yet: it may
    be bringing much older data to the present format, which is one script, and answer nobody until that is done.
    """
    while True:
        try:
            return open_store()
        except (RedisConnectionError, RedisTimeoutError, ResponseError) as error:
            if isinstance(error, ResponseError) and not str(error).startswith("BUSY"):
                raise
            _log.warning("Redis does not answer, trying again", error=str(error))
            time.sleep(_REDIS_WAIT_S)
