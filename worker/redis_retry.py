"""Retries requests to a Redis that may be unavailable."""

from collections.abc import Callable
from typing import TypeVar

import structlog
from redis.exceptions import RedisError

from runtime.starting import REDIS_WAIT_S
from storage.connection import is_away, trouble_of
from worker.context import WorkerContext

_T = TypeVar("_T")
_log = structlog.get_logger(__name__)


def retry_redis(context: WorkerContext, ask: Callable[[], _T]) -> _T:
    """Calls `ask` until Redis answers, and repeats writes that failed because its memory or disk was full.

    Raises:
        RedisError: the worker stops before Redis answers, or the error is permanent.
    """
    while True:
        try:
            return ask()
        except RedisError as error:
            if not is_away(error):
                raise
            _log.warning(f"{trouble_of(error)}, trying again", error=str(error))
            if context.stopping.wait(REDIS_WAIT_S):
                raise
