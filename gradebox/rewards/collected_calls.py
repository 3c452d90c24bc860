"""Collects single calls into batches: while one request is in flight, new calls wait for the next request.

The callers do not know of each other, so each gets its own result: a thread that cannot be sent is refused before it
joins others, and a request whose content the service refuses is sent again in halves.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from gradebox.errors import ApiError
from gradebox.outcome import Outcome
from gradebox.thread_forms import read

_Thread = dict[str, Any]
_Result = Outcome | BaseException

_OF_CONTENT = (413, 422)  # statuses that refuse the content of a request


class CollectedCalls:
    """For blocking threads. One of the waiting threads sends for all of them, and then wakes another one to send."""

    def __init__(self, send: Callable[[list[_Thread]], list[Outcome]]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._sending = False
        self._waiting: list[tuple[_Thread, Future[Outcome | None]]] = []
        self._pid = os.getpid()

    def __reduce__(self) -> tuple[type["CollectedCalls"], tuple[Callable[[list[_Thread]], list[Outcome]]]]:
        return CollectedCalls, (self._send,)

    def score(self, thread: _Thread) -> Outcome:
        """Score one thread. Raises ValueError if it is not a thread, and what sending it raises."""
        read(thread, keep_unknown=True)
        if self._pid != os.getpid():
            CollectedCalls.__init__(self, self._send)  # after a fork: drop the parent's pending calls
        mine: Future[Outcome | None] = Future()
        with self._lock:
            self._waiting.append((thread, mine))
            first, self._sending = not self._sending, True
        outcome = None if first else mine.result()
        return self._send_all(mine) if outcome is None else outcome

    def _send_all(self, mine: Future[Outcome | None]) -> Outcome:
        with self._lock:
            calls, self._waiting = self._waiting, []
        try:
            results = self._results([thread for thread, _ in calls])
        finally:
            self._pass_on()
        for (_, future), result in zip(calls, results, strict=True):
            if future is not mine:
                _settle(future, result)
        own = results[[future for _, future in calls].index(mine)]
        if isinstance(own, BaseException):
            raise own
        return own

    def _results(self, threads: list[_Thread]) -> list[_Result]:
        try:
            return [*self._send(threads)]
        except BaseException as error:  # noqa: BLE001  # raised in the callers' threads
            if len(threads) == 1 or not _is_of_content(error):
                return [error] * len(threads)
        middle = len(threads) // 2
        return self._results(threads[:middle]) + self._results(threads[middle:])

    def _pass_on(self) -> None:
        with self._lock:
            self._sending = bool(self._waiting)
            if self._waiting:
                self._waiting[0][1].set_result(None)


class AsyncCollectedCalls:
    """For asynchronous code, in one event loop at a time."""

    def __init__(self, send: Callable[[list[_Thread]], Coroutine[Any, Any, list[Outcome]]]) -> None:
        self._send = send
        self._waiting: list[tuple[_Thread, asyncio.Future[Outcome]]] = []
        self._sender: asyncio.Task[None] | None = None

    async def score(self, thread: _Thread) -> Outcome:
        """Score one thread. Raises ValueError if it is not a thread, and what sending it raises."""
        read(thread, keep_unknown=True)
        mine: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((thread, mine))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_all())
        return await mine

    async def _send_all(self) -> None:
        while self._waiting:
            calls, self._waiting = self._waiting, []
            results = await self._results([thread for thread, _ in calls])
            for (_, future), result in zip(calls, results, strict=True):
                if not future.done():  # else its caller was cancelled
                    _settle(future, result)

    async def _results(self, threads: list[_Thread]) -> list[_Result]:
        sent = asyncio.gather(self._send(threads), return_exceptions=True)
        found: list[Outcome] | BaseException = (await sent)[0]
        if not isinstance(found, BaseException):
            return [*found]
        if len(threads) == 1 or not _is_of_content(found):
            return [found] * len(threads)
        middle = len(threads) // 2
        return await self._results(threads[:middle]) + await self._results(threads[middle:])


def _is_of_content(error: BaseException) -> bool:
    """Whether the error may concern only some of the threads that were sent."""
    return isinstance(error, ValueError | TypeError) or (isinstance(error, ApiError) and error.status in _OF_CONTENT)


def _settle(future: Future[Any] | asyncio.Future[Outcome], result: _Result) -> None:
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)
