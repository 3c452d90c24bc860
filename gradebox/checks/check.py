"""A check, and helpers that quote values."""

from collections.abc import Callable, Mapping
from typing import Any

from gradebox.score import Score
from gradebox.thread import StringThread

QUOTED_CHARACTERS = 200

Problem = Callable[[StringThread], str | None]
"""Returns why a thread fails; None if it passes."""


class ThreadCheck:
    """A pass/fail test of a thread: `contains("x")(thread)` is a `Score` of 1.0, or of 0.0 with the reason."""

    __slots__ = ("_problem", "name", "settings")

    def __init__(self, name: str, settings: Mapping[str, Any], problem: Problem) -> None:
        """`name` and `settings` are the name and the arguments of the function that made the check."""
        self.name = name
        self.settings = dict(settings)
        self._problem = problem

    def __call__(self, thread: StringThread) -> Score:
        """Score a thread.

        Raises:
            ValueError: the thread lacks what is checked, such as a completion; the message names it.
        """
        problem = self._problem(thread)
        return Score.passed() if problem is None else Score.failed(problem)

    def config(self) -> dict[str, Any]:
        """Return this check as JSON: `{"check": "contains", "text": "x"}`.

        Raises:
            ValueError: a function is among its settings.
        """
        if held := [name for name, value in self.settings.items() if callable(value)]:
            raise ValueError(
                f"{self.name}({held[0]}=…) holds a function, which settings cannot: write a function grader that "
                "returns run_all([…], thread)"
            )
        return {"check": self.name, **self.settings}

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={quoted(value)}' for name, value in self.settings.items())})"


def quoted(value: object, most: int = QUOTED_CHARACTERS) -> str:
    """Quote a value for a reason; a long value is cut."""
    if isinstance(value, str):
        more = f"… ({len(value):,} characters)" if len(value) > most else ""
        return f"{value[:most]!r}{more}"
    if callable(value):
        return str(getattr(value, "__name__", type(value).__name__))
    try:
        text = repr(value)
    except RecursionError:
        return "a value that is nested too deeply to be shown"
    return text if len(text) <= most else f"{text[:most]}…"


def text_of(check: str, name: str, value: object) -> str:
    """Return the value if it is a non-empty string. Raises ValueError."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{check}({name}=) takes a text that is not empty, and got {value!r:.80}")
    return value


def count_of(check: str, name: str, value: object) -> int:
    """Return the value if it is a count. Raises ValueError."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{check}({name}=) takes an integer of at least 0, and got {value!r:.80}")
    return value


def flag_of(check: str, name: str, value: object) -> bool:
    """Return the value if it is a bool. Raises ValueError."""
    if not isinstance(value, bool):
        raise ValueError(f"{check}({name}=) takes true or false, and got {value!r:.80}")
    return value


def bounded(
    name: str, n: float, what: str, count: Callable[[StringThread], float], *, is_most: bool = True
) -> ThreadCheck:
    """A check that a count of things in a thread is at most, or at least, `n`."""

    def problem(thread: StringThread) -> str | None:
        found = count(thread)
        if found <= n if is_most else found >= n:
            return None
        return f"expected at {'most' if is_most else 'least'} {n} {what}, found {found}"

    return ThreadCheck(name, {"n": n}, problem)
