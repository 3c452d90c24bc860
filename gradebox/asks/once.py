"""What is done in one run of `grade` alone: a run that waits for a model begins anew when the answer is there."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from gradebox.asks.asking import canonical, current

T = TypeVar("T")


async def once(fn: Callable[[], T | Awaitable[T]]) -> T:
    """What `fn` returns, which JSON must be able to hold. Later runs of the same completion do not call it: they get
    what it returned as JSON gives it back. So return what comes back the same: no tuples, no keys but texts.

    Raises:
        Exception: what `fn` raises; that is not remembered.
        ValueError: JSON cannot hold what it returned.
    """
    name = getattr(fn, "__qualname__", type(fn).__qualname__)[:200]
    asker = current()
    known, value = asker.remembered(name)
    if known:
        return cast("T", value)
    result: Any = fn()
    if hasattr(result, "__await__"):
        result = await result
    asker.remember(canonical({"ask": "once", "name": name, "value": result}))
    return cast("T", result)
