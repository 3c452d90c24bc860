"""The loaded grader as a child uses it, and the types of what a child records of its result."""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol


class RunnableGrader(Protocol):
    """The attributes of the loaded grader that a child uses."""

    text: str
    grade: Callable[[object], Coroutine[Any, Any, object]]
    needs_loop: bool
    has_own_loop: bool
    touches_system: bool
    asks: bool
    groups: bool


Fields = list[tuple[int, bytes]]
"""The texts of a record: the number of each field (protocol/fields.py) and its bytes."""

ReadReturn = Callable[[Any, int, int], tuple[float, Fields]]
"""Reads what `grade` returned, as `read_return` does."""

Graded = tuple[int, int, float, Fields]
"""The parts of a record: kind, run time in microseconds, score and fields."""
