"""Collects single calls into batches: while one request is in flight, new calls wait for the next request.

The callers do not know of each other, so each gets its own result: a thread that cannot be sent is refused before it
joins others, a request whose content the service refuses is sent again in halves, and a caller that is interrupted or
cancelled leaves the others served.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from typing import Any
from weakref import WeakKeyDictionary

from gradebox.errors import ApiError
from gradebox.outcome import Outcome
from gradebox.thread_forms import read

_Thread = dict[str, Any]
_Result = Outcome | BaseException
_Send = Callable[[list[_Thread]], list[Outcome]]
_AsyncSend = Callable[[list[_Thread]], Coroutine[Any, Any, list[Outcome]]]

_OF_CONTENT = (413, 422)  # statuses that refuse the content of a request


class CollectedCalls:
    """For blocking threads."""

    def __init__(self, send: _Send) -> None:
        self._send = send
        self._of_processes: dict[int, _CallsOfProcess] = {}

    def __reduce__(self) -> tuple[type["CollectedCalls"], tuple[_Send]]:
        return CollectedCalls, (self._send,)

    def score(self, thread: _Thread) -> Outcome:
        """Score one thread. Raises ValueError if it is not a thread, and what sending it raises."""
        read(thread, keep_unknown=True)
        # After a fork, nobody sends what waits in the parent. `setdefault` is atomic: threads share what it returns.
        calls = self._of_processes.setdefault(os.getpid(), _CallsOfProcess(self._send))
        return calls.score(thread)


class _CallsOfProcess:
    """The calls of one process. A background thread sends them as long as there are any.

    No caller sends, because Ctrl-C can interrupt the main thread anywhere. A caller waits for a SimpleQueue, because
    an interrupt of `Future.result` can leave the future locked, and the sender would wait for it.
    """

    def __init__(self, send: _Send) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._waiting: list[tuple[_Thread, SimpleQueue[_Result]]] = []
        self._sender: threading.Thread | None = None

    def score(self, thread: _Thread) -> Outcome:
        mine: SimpleQueue[_Result] = SimpleQueue()
        try:
            self._add(thread, mine)
            result = mine.get()
        except BaseException:
            self._remove(mine)
            raise
        if isinstance(result, BaseException):
            raise result
        return result

    def _add(self, thread: _Thread, mine: SimpleQueue[_Result]) -> None:
        with self._lock:
            self._waiting.append((thread, mine))
            # It is not alive if its start failed or was interrupted.
            if self._sender is None or not self._sender.is_alive():
                # A daemon, so that a process can end while a request is under way.
                self._sender = threading.Thread(target=self._send_all, name="gradebox-rewards", daemon=True)
                self._sender.start()

    def _remove(self, mine: SimpleQueue[_Result]) -> None:
        with self._lock:
            self._waiting = [call for call in self._waiting if call[1] is not mine]

    def _send_all(self) -> None:
        while calls := self._take():
            results = self._results([thread for thread, _ in calls])
            for (_, caller), result in zip(calls, results, strict=True):
                caller.put(result)

    def _take(self) -> list[tuple[_Thread, SimpleQueue[_Result]]]:
        with self._lock:
            calls, self._waiting = self._waiting, []
            if not calls:
                self._sender = None
            return calls

    def _results(self, threads: list[_Thread]) -> list[_Result]:
        try:
            return _each(threads, self._send(threads))
        except BaseException as error:  # noqa: BLE001  # raised in the callers' threads
            if len(threads) == 1 or not _is_of_content(error):
                return [error] * len(threads)
        middle = len(threads) // 2
        return self._results(threads[:middle]) + self._results(threads[middle:])


class AsyncCollectedCalls:
    """For asynchronous code, in any number of event loops."""

    def __init__(self, send: _AsyncSend) -> None:
        self._send = send
        self._of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _CallsOfLoop] = WeakKeyDictionary()

    def __reduce__(self) -> tuple[type["AsyncCollectedCalls"], tuple[_AsyncSend]]:
        return AsyncCollectedCalls, (self._send,)

    async def score(self, thread: _Thread) -> Outcome:
        """Score one thread. Raises ValueError if it is not a thread, and what sending it raises."""
        read(thread, keep_unknown=True)
        loop = asyncio.get_running_loop()
        if loop not in self._of_loops:
            self._of_loops[loop] = _CallsOfLoop(self._send)
        return await self._of_loops[loop].score(thread)


class _CallsOfLoop:
    """The calls of one event loop. A task sends them as long as there are any."""

    def __init__(self, send: _AsyncSend) -> None:
        self._send = send
        # A call stays here until it has a result, so that none is lost with its sender.
        self._waiting: list[tuple[_Thread, asyncio.Future[Outcome]]] = []
        self._sender: asyncio.Task[None] | None = None

    async def score(self, thread: _Thread) -> Outcome:
        mine: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((thread, mine))
        self._keep_sending()
        return await mine

    def _keep_sending(self, _ended: asyncio.Task[None] | None = None) -> None:
        """Start a sender if none runs. If one was cancelled or interrupted, the next sends what has no result."""
        if self._sender is not None and not self._sender.done():
            return
        self._sender = None  # a task refers to its loop, which could otherwise not be collected
        if self._unanswered():
            self._sender = asyncio.create_task(self._send_all())
            self._sender.add_done_callback(self._keep_sending)

    async def _send_all(self) -> None:
        while calls := self._unanswered():
            results = await self._results([thread for thread, _ in calls])
            for (_, future), result in zip(calls, results, strict=True):
                if not future.done():  # else its caller was cancelled
                    _settle(future, result)

    def _unanswered(self) -> list[tuple[_Thread, asyncio.Future[Outcome]]]:
        self._waiting = [call for call in self._waiting if not call[1].done()]
        return [*self._waiting]

    async def _results(self, threads: list[_Thread]) -> list[_Result]:
        try:
            return _each(threads, await self._send(threads))
        except Exception as error:  # noqa: BLE001  # raised in the callers' tasks
            if len(threads) == 1 or not _is_of_content(error):
                return [error] * len(threads)
        middle = len(threads) // 2
        return await self._results(threads[:middle]) + await self._results(threads[middle:])


def _each(threads: list[_Thread], outcomes: list[Outcome]) -> list[_Result]:
    """The outcomes. Raises ValueError unless each thread has one."""
    return [outcome for _, outcome in zip(threads, outcomes, strict=True)]


def _is_of_content(error: BaseException) -> bool:
    """Whether the error may concern only some of the threads that were sent."""
    return isinstance(error, ValueError | TypeError) or (isinstance(error, ApiError) and error.status in _OF_CONTENT)


def _settle(future: asyncio.Future[Outcome], result: _Result) -> None:
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)
