"""Equal asks that are under way at once: one is sent, and all have its answer."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class _Flight(Generic[Result]):
    def __init__(self, task: asyncio.Task[Result]) -> None:
        self.task = task
        self.waiting = 0


class Flights(Generic[Result]):
    """What is under way, by what makes it equal. For one event loop."""

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[Result]] = {}
        self._tasks: set[asyncio.Task[Result]] = set()  # those that were given up and have not ended too

    async def join(self, key: Hashable, begin: Callable[[], Coroutine[Any, Any, Result]]) -> tuple[Result, bool]:
        """The result of what is under way under this key, or begins now; and whether it began now. It is cancelled when
        nobody waits for it any more.
        """
        flight = self._flights.get(key)
        is_first = flight is None
        if flight is None:
            flight = self._flights[key] = _Flight(asyncio.create_task(begin()))
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
        """Ends all of them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _landed(self, key: Hashable, flight: _Flight[Result], task: asyncio.Task[Result]) -> None:
        self._tasks.discard(task)
        self._forget(key, flight)

    def _forget(self, key: Hashable, flight: _Flight[Result]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
