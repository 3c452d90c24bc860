"""Deduplicates concurrent equal asks: one is sent, and all receive its answer."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class _Flight(Generic[Result]):
    def __init__(self, task: asyncio.Task[Result]) -> None:
        self.task = task
        self.waiting = 0


class EqualAsks(Generic[Result]):
    """The asks in flight, by key. For one event loop."""

    def __init__(self) -> None:
        self._equal_asks: dict[Hashable, _Flight[Result]] = {}
        self._tasks: set[asyncio.Task[Result]] = set()  # includes cancelled tasks that have not ended

    async def join(self, key: Hashable, begin: Callable[[], Coroutine[Any, Any, Result]]) -> tuple[Result, bool]:
        """Return the result of the task under this key, starting it if there is none, and whether this call started it.
        The task is cancelled when no caller waits for it any more.
        """
        flight = self._equal_asks.get(key)
        is_first = flight is None
        if flight is None:
            flight = self._equal_asks[key] = _Flight(asyncio.create_task(begin()))
            self._tasks.add(flight.task)
            flight.task.add_done_callback(partial(self._landed, key, flight))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task), is_first
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                self._forget(key, flight)
                flight.task.cancel()

    async def close(self) -> None:
        """Cancel all tasks and wait for their end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _landed(self, key: Hashable, flight: _Flight[Result], task: asyncio.Task[Result]) -> None:
        self._tasks.discard(task)
        self._forget(key, flight)

    def _forget(self, key: Hashable, flight: _Flight[Result]) -> None:
        if self._equal_asks.get(key) is flight:
            del self._equal_asks[key]
