"""The start of each process of the service, API and worker alike, and the exit codes of processes that cannot start."""

import os
import resource
import time
from collections.abc import Callable
from typing import TypeVar

import structlog
from pydantic import ValidationError
from redis.exceptions import AuthenticationError, RedisError

from gradebox.service.logs import configure
from gradebox.service.settings_error import fault_of
from runtime import thread_failures, tracing
from runtime.errors import CannotStart, CannotStartYet
from runtime.supervised import is_supervised, stop_with_parent

_FILES = 65_536
REDIS_WAIT_S = 1.0  # between two tries of a Redis that does not answer
LOG_S = 30.0  # between two identical lines of the log

_Store = TypeVar("_Store")
_log = structlog.get_logger(__name__)


def start(role: str, run: Callable[[], None]) -> int:
    """Sets up what every process needs, then calls `run`. Returns the exit code."""
    stop_with_parent()
    os.umask(0o077)  # only this user may read threads and outcomes in the spool
    configure(role)
    thread_failures.watch()
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
        return CannotStart.exit_code
    return 0


def allow_files() -> None:
    """Raises the limit of open files, up to 65,536: each connection is one, and opens further ones."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, _FILES) if hard > 0 else _FILES, hard))


def wait_for(open_store: Callable[[], _Store], is_away: Callable[[RedisError], bool]) -> _Store:
    """Opens the store, and waits while it raises CannotStartYet, or for a Redis of which `is_away` says that a later
    try may succeed.

    Redis may be starting, or may be running the script that migrates data, during which it answers no other request.

    Raises:
        RedisRefuses: the credentials are wrong and this is a process of `gradebox serve`; other processes wait.
        Exception: any other exception of `open_store`.
    """
    logged_at = float("-inf")
    while True:
        try:
            return open_store()
        except (CannotStartYet, RedisError) as error:
            if isinstance(error, RedisError) and not is_away(error):
                raise
            if isinstance(error, AuthenticationError) and is_supervised():
                raise RedisRefuses(f"{error}: correct GRADEBOX_REDIS_URL or --redis-url") from error
            if time.monotonic() > logged_at + LOG_S:
                _log.warning("Redis cannot be used yet, trying again", error=str(error))
                logged_at = time.monotonic()
            time.sleep(REDIS_WAIT_S)


class RedisRefuses(CannotStart):
    """Redis rejects the user name or the password."""

    what = "Redis cannot be used"
