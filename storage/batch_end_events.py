"""Tells requests of this process that wait for a batch that it ended, or for an environment that it changed."""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from redis import ConnectionPool, Redis
from redis.client import PubSub
from redis.exceptions import RedisError

from storage import names

_log = logging.getLogger(__name__)
_LISTEN_S = 5.0
_AGAIN_S = 1.0


class BatchEndEvents(threading.Thread):
    """Listens on one connection for all who wait.

    A word can be missed while Redis is away: then all are called, and look for themselves.
    """

    def __init__(self, redis: Redis) -> None:
        super().__init__(name="endings", daemon=True)
        pool = redis.connection_pool
        own = ConnectionPool(connection_class=pool.connection_class, **pool.connection_kwargs)
        self._redis = Redis(
            connection_pool=own
        )  # the subscription lasts as long as the process, also when other connections are closed
        self._lock = threading.Lock()
        self._waiting: dict[str, list[Callable[[], object]]] = defaultdict(list)

    @contextmanager
    def calling(self, event: str, call: Callable[[], object]) -> Iterator[None]:
        """While the block lasts, `call` is called when the batch of this id ends, or the environment of this name
        changes, and sometimes when it does not.
        """
        with self._lock:
            if not self.is_alive():
                self.start()
            self._waiting[event].append(call)
        try:
            yield
        finally:
            with self._lock:
                self._waiting[event].remove(call)
                if not self._waiting[event]:
                    del self._waiting[event]

    def run(self) -> None:
        """Listens for as long as the process lives."""
        while True:
            try:
                self._listen()
            except RedisError:
                time.sleep(_AGAIN_S)
            except Exception:  # noqa: BLE001  # who waits here would wait in vain from now on
                _log.exception("word of batches that ended was interrupted")
                time.sleep(_AGAIN_S)

    def _listen(self) -> None:
        with PubSub(self._redis.connection_pool, ignore_subscribe_messages=True) as pubsub:
            pubsub.subscribe(names.ENDINGS)
            pubsub.get_message(timeout=_LISTEN_S)  # the answer to `subscribe`
            with self._lock:
                waiting = list(self._waiting)
            self._tell(*waiting)
            while True:
                message = pubsub.get_message(timeout=_LISTEN_S)
                if message is not None:
                    self._tell(message["data"].decode())

    def _tell(self, *events: str) -> None:
        with self._lock:
            calls = [call for event in events for call in self._waiting.get(event, ())]
        for call in calls:
            call()
