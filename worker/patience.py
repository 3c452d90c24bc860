"""Asking a Redis that may be away."""

import logging
from collections.abc import Callable
from typing import TypeVar

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from worker.runtime import Runtime

_REDIS_WAIT_S = 1.0

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


def patiently(runtime: Runtime, ask: Callable[[], _T]) -> _T:
    """Asks until Redis answers.

    Raises:
        RedisError: it does not, and the worker is told to stop.
    """
    while True:
        try:
            return ask()
        except (RedisConnectionError, RedisTimeoutError) as error:
            _log.warning("Redis does not answer, trying again: %s", error)
            if runtime.stopping.wait(_REDIS_WAIT_S):
                raise
