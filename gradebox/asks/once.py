"""Computations done in only one run of `grade`: a run that waits for a model starts over when the answer arrives."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from gradebox.asks.asking import current, encoded, note_used, noting_used

T = TypeVar("T")


async def once(fn: Callable[[], T | Awaitable[T]]) -> T:
    """Call `fn` and return its result, which JSON must be able to hold.

    `fn` may ask. Later runs of the same completion do not call it: they get its result after a round trip through JSON.
    Return values that survive the round trip: no tuples, and only strings as keys.

    Raises:
        Exception: what `fn` raises; it is not stored.
        ValueError: JSON cannot hold the result.
    """
    name = getattr(fn, "__qualname__", type(fn).__qualname__)[:200]
    asker = current()
    known, value = asker.remembered(name)
    if known:
        return cast("T", value)
    with noting_used() as used:
        result: Any = fn()
        if hasattr(result, "__await__"):
            result = await result
    asker.remember(encoded({"ask": "once", "name": name, "used": used, "value": result}))
    note_used(name)
    return cast("T", result)
