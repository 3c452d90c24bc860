"""What a grader's exception says to the person who wrote the grader: their own frames, never ours, and what to do."""

import sys
from typing import NamedTuple

from validators.candidate import FILENAME

_MOST_FRAMES = 20
_MOST_LINE = 200


class Explained(NamedTuple):
    """An exception in words. `line` is 0 where no line of the grader took part."""

    message: str
    line: int
    trace: str


def explain(error: BaseException, text: str) -> Explained:
    """Never raises, whatever `error` is: its `__str__` may be hostile, and is called in this process alone."""
    frames = _frames(error)
    line = frames[-1][0] if frames else getattr(error, "lineno", None) or 0
    headline = f"{_name(error)}: {_text_of(error)}".rstrip(": ")
    hint = _hint(error)
    return Explained(headline + hint, line if type(line) is int else 0, _trace(frames, headline, text))


def _name(error: BaseException) -> str:
    kind = type(error)
    return type.__getattribute__(kind, "__name__")[:200]  # type: ignore[no-any-return]  # a metaclass cannot lie here


def _text_of(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException as problem:  # noqa: BLE001  # hostile code: nothing it raises may pass
        return f"(its message could not be read: {_name(problem)})"
    return text if len(text) <= 4096 else text[:4096] + "…"


def _frames(error: BaseException) -> list[tuple[int, str]]:
    """(line, function) of each frame of the grader, outermost first; of a long recursion the two ends."""
    frames: list[tuple[int, str]] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == FILENAME:
            frames.append((trace.tb_lineno or 0, code.co_name))
        trace = trace.tb_next
    if len(frames) > _MOST_FRAMES:
        half = _MOST_FRAMES // 2
        frames = [*frames[:half], (0, f"… {len(frames) - _MOST_FRAMES} more frames …"), *frames[-half:]]
    return frames


def _trace(frames: list[tuple[int, str]], headline: str, text: str) -> str:
    if not frames:
        return ""
    lines = text.splitlines()
    shown = ["Traceback (most recent call last):"]
    for number, function in frames:
        shown.append(f'  File "{FILENAME}", line {number}, in {function[:100]}' if number else f"  {function}")
        if 0 < number <= len(lines):
            shown.append(f"    {lines[number - 1].strip()[:_MOST_LINE]}")
    return "\n".join([*shown, headline])


def _hint(error: BaseException) -> str:
    if type(error) is NameError and type(error.name) is str:
        if error.name in sys.stdlib_module_names:
            return (
                f". `{error.name}` is not imported in the uploaded source: imports outside the function are not "
                f"uploaded with a function alone. Put `import {error.name}` inside `grade`, or upload the whole file."
            )
        return ". What `grade` uses must be in the uploaded source: define it inside `grade`, or upload the whole file."
    if type(error) is ModuleNotFoundError:
        return ". A grader has the standard library alone (and `StringThread`): do without this package."
    if type(error) is RecursionError:
        return ". A function calls itself without an end, or the data is nested too deeply."
    return ""
