"""Asks that are sent in one round."""

import sys
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, TypeVar

_T = TypeVar("_T")
_Calls = Sequence[Callable[[], Coroutine[Any, Any, _T]]]


async def together(calls: _Calls[_T]) -> list[_T]:
    """Return the results of the calls, in order; raises the exception of the first call that fails.

    In a sandbox this works without an event loop, which would make each run of a grader many times more expensive.
    """
    if len(calls) == 1:
        return [await calls[0]()]
    if not _has_loop():
        results: list[_T] = []
        await _InTurn(calls, results)
        return results
    from asyncio import gather

    return await gather(*(call() for call in calls))


def _has_loop() -> bool:
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _InTurn:
    """Runs each call until it waits, then suspends once for all; the next run starts over with the answers."""

    def __init__(self, calls: _Calls[Any], results: list[Any]) -> None:
        self._calls = calls
        self._results = results

    def __await__(self) -> Generator[Any, None, None]:
        waiting: list[tuple[Coroutine[Any, Any, Any], Any]] = []
        for call in self._calls:
            coroutine = call()
            try:
                waiting.append((coroutine, coroutine.send(None)))
            except StopIteration as ended:
                self._results.append(ended.value)
        if waiting:
            yield waiting[0][1]
            raise RuntimeError("what waits together goes on in an event loop alone, or begins anew with the answers")
