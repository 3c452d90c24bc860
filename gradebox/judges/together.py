"""Asks that are sent in one round."""

import sys
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Generic, TypeVar

from gradebox.asks.asking import Pause

_T = TypeVar("_T")
_Calls = Sequence[Callable[[], Coroutine[Any, Any, _T]]]


async def together(calls: _Calls[_T]) -> list[_T]:
    """Return the results of the calls, in order. If calls fail, raises the exception of the first, and ends the others.

    In a sandbox this works without an event loop, which would make each run of a grader many times more expensive.
    """
    if len(calls) == 1:
        return [await calls[0]()]
    if not _has_loop():
        return await _InTurn(calls)
    from asyncio import create_task, gather

    tasks = [create_task(call()) for call in calls]
    try:
        return await gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _has_loop() -> bool:
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _InTurn(Generic[_T]):
    """Runs each call until it waits, then suspends once for all, and so on."""

    def __init__(self, calls: _Calls[_T]) -> None:
        self._calls = calls

    def __await__(self) -> Generator[Any, None, list[_T]]:
        running = {number: call() for number, call in enumerate(self._calls)}
        results: dict[int, _T] = {}
        try:
            while len(results) < len(self._calls):
                waits: list[Any] = []
                failed: Exception | None = None
                for number, coroutine in [*running.items()]:
                    try:
                        waits.append(coroutine.send(None))
                        continue
                    except StopIteration as ended:
                        results[number] = ended.value
                    except Exception as error:  # noqa: BLE001  # raised once the other calls of this round have asked
                        failed = failed or error
                    del running[number]
                if failed is not None:
                    raise failed
                if waits:
                    # What only an event loop can end takes precedence: the caller has to see it.
                    yield next((each for each in waits if type(each) is not Pause), waits[0])
        finally:
            for coroutine in running.values():
                coroutine.close()
        return [results[number] for number in range(len(self._calls))]
