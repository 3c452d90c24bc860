"""Deduplicates concurrent equal asks: one is sent, and all receive its answer."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class _SharedAsk(Generic[Result]):
    def __init__(self, task: asyncio.Task[Result]) -> None:
        self.task = task
        self.waiting = 0


class EqualAsks(Generic[Result]):
    """The asks in progress, by key. For one event loop."""

    def __init__(self) -> None:
        self._equal_asks: dict[Hashable, _SharedAsk[Result]] = {}
        self._tasks: set[asyncio.Task[Result]] = set()  # includes cancelled tasks that have not ended

    async def join(self, key: Hashable, begin: Callable[[], Coroutine[Any, Any, Result]]) -> tuple[Result, bool]:
        """Return the result of the task under this key, starting it if there is none, and whether this call started it.
        The task is cancelled when no caller waits for it any more.
        """
        shared = self._equal_asks.get(key)
        is_first = shared is None
        if shared is None:
            shared = self._equal_asks[key] = _SharedAsk(asyncio.create_task(begin()))
            self._tasks.add(shared.task)
            shared.task.add_done_callback(partial(self._ended, key, shared))
        shared.waiting += 1
        try:
            return await asyncio.shield(shared.task), is_first
        finally:
            shared.waiting -= 1
            if not shared.waiting and not shared.task.done():
                self._forget(key, shared)
                shared.task.cancel()

    async def close(self) -> None:
        """Cancel all tasks and wait for their end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, key: Hashable, shared: _SharedAsk[Result], task: asyncio.Task[Result]) -> None:
        self._tasks.discard(task)
        self._forget(key, shared)

    def _forget(self, key: Hashable, shared: _SharedAsk[Result]) -> None:
        if self._equal_asks.get(key) is shared:
            del self._equal_asks[key]
