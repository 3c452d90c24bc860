"""Notifies requests in this process that wait for the end of a batch or a change of an environment."""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from redis import ConnectionPool, Redis
from redis.client import PubSub
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from storage import redis_keys

_log = logging.getLogger(__name__)
_LISTEN_S = 5.0
_AGAIN_S = 1.0


class BatchEndEvents(threading.Thread):
    """Subscribes on one connection for all waiting requests.

    A message can be lost while Redis is unavailable. On reconnection all callbacks are called, and each checks for
    itself.
    """

    def __init__(self, redis: Redis) -> None:
        super().__init__(name="endings", daemon=True)
        pool = redis.connection_pool
        # A separate pool: the subscription lasts as long as the process, even if other connections are closed.
        self._pool = ConnectionPool(connection_class=pool.connection_class, **pool.connection_kwargs)
        self._lock = threading.Lock()
        self._waiting: dict[str, list[Callable[[], object]]] = defaultdict(list)

    @contextmanager
    def calling(self, event: str, call: Callable[[], object]) -> Iterator[None]:
        """While the block runs, calls `call` when the batch with this id ends or the environment of this name changes.
        Spurious calls are possible.
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
            except Exception:  # noqa: BLE001  # otherwise all waiting requests would hang
                _log.exception("notifications of ended batches were interrupted")
                time.sleep(_AGAIN_S)

    def _listen(self) -> None:
        with PubSub(self._pool, ignore_subscribe_messages=True) as pubsub:
            pubsub.subscribe(redis_keys.ENDINGS)
            pubsub.get_message(timeout=_LISTEN_S)  # the confirmation of `subscribe`
            with self._lock:
                waiting = list(self._waiting)
            self._notify(*waiting)
            while True:
                message = pubsub.get_message(timeout=_LISTEN_S)
                if message is None:  # Redis has nothing to tell, or its end of the connection has gone without a word
                    pubsub.ping()
                    message = pubsub.get_message(timeout=_LISTEN_S)
                if message is None:
                    raise RedisTimeoutError("Redis does not answer a ping")
                if message["type"] == "message":
                    self._notify(message["data"].decode())

    def _notify(self, *events: str) -> None:
        with self._lock:
            calls = [call for event in events for call in self._waiting.get(event, ())]
        for call in calls:
            call()
