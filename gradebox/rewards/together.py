"""Collects single calls into batches: while one request is in flight, new calls wait for the next request."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from gradebox.outcome import Outcome

_Thread = dict[str, Any]


class Together:
    """For blocking threads. One of the waiting threads sends for all of them, and then wakes another one to send."""

    def __init__(self, send: Callable[[list[_Thread]], list[Outcome]]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._sending = False
        self._waiting: list[tuple[_Thread, Future[Outcome | None]]] = []
        self._pid = os.getpid()

    def __reduce__(self) -> tuple[type["Together"], tuple[Callable[[list[_Thread]], list[Outcome]]]]:
        return Together, (self._send,)

    def score(self, thread: _Thread) -> Outcome:
        """Score one thread. Raises what sending raises."""
        if self._pid != os.getpid():
            Together.__init__(self, self._send)  # after a fork: drop the parent's pending calls
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
            outcomes = self._send([thread for thread, _ in calls])
        except BaseException as error:
            for _, future in calls:
                if future is not mine:
                    future.set_exception(error)
            raise
        finally:
            self._pass_on()
        for (_, future), outcome in zip(calls, outcomes, strict=True):
            if future is not mine:
                future.set_result(outcome)
        return outcomes[[future for _, future in calls].index(mine)]

    def _pass_on(self) -> None:
        with self._lock:
            self._sending = bool(self._waiting)
            if self._waiting:
                self._waiting[0][1].set_result(None)


class AsyncTogether:
    """For asynchronous code, in one event loop at a time."""

    def __init__(self, send: Callable[[list[_Thread]], Coroutine[Any, Any, list[Outcome]]]) -> None:
        self._send = send
        self._waiting: list[tuple[_Thread, asyncio.Future[Outcome]]] = []
        self._sender: asyncio.Task[None] | None = None

    async def score(self, thread: _Thread) -> Outcome:
        """Score one thread. Raises what sending raises."""
        mine: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((thread, mine))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_all())
        return await mine

    async def _send_all(self) -> None:
        while self._waiting:
            calls, self._waiting = self._waiting, []
            sent = asyncio.gather(self._send([thread for thread, _ in calls]), return_exceptions=True)
            results: list[Outcome] | BaseException = (await sent)[0]
            for number, (_, future) in enumerate(calls):
                if future.done():  # its caller was cancelled
                    continue
                if isinstance(results, BaseException):
                    future.set_exception(results)
                else:
                    future.set_result(results[number])
