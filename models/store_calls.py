"""Redis calls of asks, sent in batches: one round trip at a time, with all calls made in the meantime."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any, NamedTuple

from redis import Redis
from redis.commands.core import Script
from redis.exceptions import NoScriptError, RedisError

from storage.connection import is_away, trouble_of

_GATHER_S = 0.002
_AT_ONCE = 200  # calls per round trip: the first of many asks are sent while the others are still looked up
AWAY_S = 30.0  # how long to wait for a Redis that is away
AGAIN_S = 0.5
_log = logging.getLogger(__name__)


class _Call(NamedTuple):
    script: Script
    arguments: Sequence[Any]
    answer: asyncio.Future[Any]


class StoreCalls:
    """Calls of scripts, for one event loop. Redis is called on a thread, as elsewhere in the service."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._thread = ThreadPoolExecutor(1, "asker-store")
        self._urgent: deque[_Call] = deque()
        self._others: deque[_Call] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._is_ended = False

    def call(self, script: Script, arguments: Sequence[Any], *, urgent: bool = True) -> asyncio.Future[Any]:
        """Call a script; returns a future of its result.

        The call is made even if the caller no longer waits. If Redis is away for a moment, it may be made twice. Calls
        that are not urgent are sent after urgent ones.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        (self._urgent if urgent else self._others).append(_Call(script, arguments, answer))
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())
        return answer

    def end(self) -> None:
        """Stop waiting for a Redis that is away."""
        self._is_ended = True

    async def close(self) -> None:
        """Wait until all calls are sent."""
        if self._sending is not None:
            await self._sending
        self._thread.shutdown(wait=False)

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        began = monotonic()
        await asyncio.sleep(_GATHER_S)
        while calls := self._next():
            try:
                found = await loop.run_in_executor(self._thread, self._execute, calls)
            except RedisError as error:
                if is_away(error) and not self._is_ended and monotonic() - began < AWAY_S:
                    _log.warning("%s, the calls of asks are sent again: %s", trouble_of(error), error)
                    self._urgent.extendleft(reversed(calls))
                    await asyncio.sleep(AGAIN_S)
                    continue
                found = [error] * len(calls)
            except BaseException as error:  # otherwise callers would wait for calls that are never sent
                self._sending = None
                for call in calls:
                    _settle(call.answer, error)
                raise
            began = monotonic()
            for call, result in zip(calls, found, strict=True):
                _settle(call.answer, result)
            if not self._urgent and not self._others:
                await asyncio.sleep(_GATHER_S)
        self._sending = None

    def _next(self) -> list[_Call]:
        calls: list[_Call] = []
        for waiting in (self._urgent, self._others):
            while waiting and len(calls) < _AT_ONCE:
                calls.append(waiting.popleft())
        return calls

    def _execute(self, calls: Sequence[_Call]) -> list[Any]:
        found = self._evaluate(calls)
        missing = [number for number, result in enumerate(found) if isinstance(result, NoScriptError)]
        if missing:  # Redis was restarted, or its scripts were flushed
            for script in {calls[number].script for number in missing}:
                self._redis.script_load(script.script)
            for number, result in zip(missing, self._evaluate([calls[number] for number in missing]), strict=True):
                found[number] = result
        for result in found:
            if isinstance(result, RedisError) and is_away(result):
                raise result
        return found

    def _evaluate(self, calls: Sequence[_Call]) -> list[Any]:
        with self._redis.pipeline(transaction=False) as pipe:
            for call in calls:
                pipe.evalsha(call.script.sha, 0, *call.arguments)
            return pipe.execute(raise_on_error=False)


def _settle(answer: asyncio.Future[Any], result: Any) -> None:
    if answer.done():
        return
    if isinstance(result, BaseException):
        answer.set_exception(result)
        answer.exception()  # mark as retrieved, in case no caller awaits it
    else:
        answer.set_result(result)
