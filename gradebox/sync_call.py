"""Calls of users' functions that must be synchronous.

An async function returns a coroutine, which counts as true: as a test, it would pass everything.

Graders import this module inside the sandbox, so it imports only the standard library.
"""

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

_ASYNC = 0x80 | 0x200  # code flags of async functions and generators; `inspect`, which has names for them, takes 10 ms


def refuse_async(where: str, fn: Callable[..., object]) -> None:
    """Raises ValueError if the function is written with `async def`. `where` names the argument that holds it."""
    if getattr(getattr(fn, "__code__", None), "co_flags", 0) & _ASYNC:
        raise ValueError(f"{where} takes a function that returns its result at once, and {_name(fn)} is async: {_FIX}")


def sync_call(where: str, fn: Callable[..., _T], *args: object) -> _T:
    """Call the function. Raises ValueError if its result has to be awaited or iterated."""
    result = fn(*args)
    if not any(hasattr(result, name) for name in ("__await__", "__aiter__", "__next__")):
        return result
    if hasattr(result, "close"):
        result.close()  # otherwise Python warns that it was never awaited
    raise ValueError(
        f"{where} takes a function that returns its result at once, and {_name(fn)} returned a "
        f"{type(result).__name__}, which is no result yet: {_FIX}"
    )


_FIX = "write it with `def`, and await and yield nothing in it"


def _name(fn: object) -> str:
    return str(getattr(fn, "__name__", type(fn).__name__))[:80]
