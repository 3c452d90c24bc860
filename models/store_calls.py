"""Redis calls of asks, sent in batches: one round trip at a time, with all calls made in the meantime."""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from time import monotonic
from typing import Any, NamedTuple

from redis import Redis
from redis.commands.core import Script
from redis.exceptions import NoScriptError, RedisError

from storage.connection import is_away, trouble_of

_GATHER_S = 0.002
_AT_ONCE = 200  # calls per round trip: the first of many asks are sent while the others are still looked up
AWAY_S = 30.0  # how long a person waits for a Redis that is away
AGAIN_S = 0.5
_log = logging.getLogger(__name__)


class _Call(NamedTuple):
    script: Script
    arguments: Sequence[Any]
    answer: asyncio.Future[Any]
    ends: float
    number: int | None


class StoreCalls:
    """Calls of scripts, for one event loop. Redis is called on a thread, as elsewhere in the service."""

    def __init__(self, redis: Redis, process: str, away_s: float | None = None) -> None:
        """`process` is a name that no other process has. `away_s` is how long a call waits for a Redis that is away;
        None for until `end`.
        """
        self._redis = redis
        self._process = process
        self._trips = 0
        self._numbers = count()
        self._away_s = math.inf if away_s is None else away_s
        self._thread = ThreadPoolExecutor(1, "asker-store")
        self._urgent: deque[_Call] = deque()
        self._others: deque[_Call] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._is_ended = False

    def call(
        self,
        script: Script,
        arguments: Sequence[Any],
        *,
        urgent: bool = True,
        lasting: bool = False,
        once: bool = False,
    ) -> asyncio.Future[Any]:
        """Run a Lua script in Redis. Return a future of its result.

        The call is made even if the caller no longer waits. If Redis is away for a moment, it may be made twice; with
        `once`, the script is told its identity in three more arguments: the process, the number of its round trip, and
        its own number. Calls that are not urgent are sent after urgent ones. A lasting call waits for Redis until
        `end`.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        number = next(self._numbers) if once else None
        ends = math.inf if lasting else monotonic() + self._away_s
        (self._urgent if urgent else self._others).append(_Call(script, arguments, answer, ends, number))
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
        await asyncio.sleep(_GATHER_S)
        while calls := self._next():
            try:
                await self._send_until_settled(calls)
            except BaseException as error:  # otherwise callers would wait for calls that are never sent
                self._sending = None
                for call in calls:
                    _settle(call.answer, error)
                raise
            if not self._urgent and not self._others:
                await asyncio.sleep(_GATHER_S)
        self._sending = None

    async def _send_until_settled(self, calls: Sequence[_Call]) -> None:
        """Makes one round trip, and repeats it with the calls that Redis did not answer."""
        self._trips += 1
        loop = asyncio.get_running_loop()
        is_told = False
        while calls:
            try:
                found = await loop.run_in_executor(self._thread, self._execute, calls)
            except RedisError as error:
                found = [error] * len(calls)
            failed = [error for error in found if isinstance(error, RedisError) and is_away(error)]
            calls = [call for call, result in zip(calls, found, strict=True) if not self._is_settled(call, result)]
            if failed:
                self._fail_overdue(failed[0])
            if calls and not is_told:
                _log.warning("%s, %d calls of asks are sent again: %s", trouble_of(failed[0]), len(calls), failed[0])
                is_told = True
            if calls:
                await asyncio.sleep(AGAIN_S)

    def _is_settled(self, call: _Call, result: Any) -> bool:
        """Settles a call, unless Redis is away and the call still waits for it."""
        if isinstance(result, RedisError) and is_away(result) and not self._is_overdue(call):
            return False
        _settle(call.answer, result)
        return True

    def _is_overdue(self, call: _Call) -> bool:
        return self._is_ended or monotonic() >= call.ends

    def _fail_overdue(self, error: RedisError) -> None:
        """Fails the calls that are not sent yet and have waited for as long as they may."""
        for waiting in (self._urgent, self._others):
            for _ in range(len(waiting)):
                call = waiting.popleft()
                if self._is_overdue(call):
                    _settle(call.answer, error)
                else:
                    waiting.append(call)

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
        return found

    def _evaluate(self, calls: Sequence[_Call]) -> list[Any]:
        with self._redis.pipeline(transaction=False) as pipe:
            for call in calls:
                identity = () if call.number is None else (self._process, self._trips, call.number)
                pipe.evalsha(call.script.sha, 0, *call.arguments, *identity)
            return pipe.execute(raise_on_error=False)


def _settle(answer: asyncio.Future[Any], result: Any) -> None:
    if answer.done():
        return
    if isinstance(result, BaseException):
        answer.set_exception(result)
        answer.exception()  # mark as retrieved, in case no caller awaits it
    else:
        answer.set_result(result)
