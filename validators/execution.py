"""Check 4: the module body runs and leaves `grade` a coroutine function."""

import os
import sys
from _thread import _count as count_threads
from types import FunctionType, MethodType, ModuleType

from validators.candidate import FILENAME, MODULE, Candidate, CheckFailed
from validators.exception_text import explain

_CO_COROUTINE = 0x80
_LEFT = (
    "the module body leaves {what} running, which ends before `grade` is called: what waits for it gets no answer, and "
    "where that is caught, the grader goes on. Start it inside `grade`: a pool, for example, at its first use"
)


def check(candidate: Candidate) -> str:
    """Runs the body in a module in `sys.modules`, because dataclasses and multiprocessing import it by name."""
    module = _module(candidate)
    threads, had_process = count_threads(), _has_process()
    try:
        exec(candidate.code, module.__dict__)  # noqa: S102  # the purpose of this check, in an isolated process
    except BaseException as error:  # noqa: BLE001  # any exception of the module body is the result
        explained = explain(error, candidate.text, candidate.text_bytes)
        message = f"the module body raised {explained.message}{explained.cause}"
        raise CheckFailed(message, explained.line, 0, explained.trace) from None
    grade = module.__dict__.get("grade")
    if grade is None:
        raise CheckFailed(
            "after the module body ran, `grade` is not defined: its definition was not reached, or it was deleted.",
            candidate.definition.lineno,
        )
    if not _is_coroutine_function(grade):
        raise CheckFailed(
            f"after the module body ran, `grade` is no coroutine function but {_kind(grade)}. "
            "A decorator must return an `async def`, and `grade` must not be bound again.",
            candidate.definition.lineno,
        )
    if count_threads() > threads:
        candidate.warnings.append(_LEFT.format(what="a thread"))
    if _has_process() and not had_process:
        candidate.warnings.append(_LEFT.format(what="a process"))
    candidate.grade = grade
    candidate.asks = _asks()
    return "the module body runs"


def _has_process() -> bool:
    """Whether this process has a child that runs."""
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


def _asks() -> tuple[str, ...]:
    """The models and endpoints that the module body named for `grade` to ask."""
    asking = sys.modules.get("gradebox.asks.asking")
    return asking.settle() if asking is not None else ()


def _module(candidate: Candidate) -> ModuleType:
    from gradebox.thread import StringThread

    module = ModuleType(MODULE)
    module.__file__ = os.path.abspath(FILENAME)  # noqa: PTH100  # as of any module; no `pathlib`
    module.__dict__["__loader__"] = _Loader(candidate.text)
    module.__dict__["StringThread"] = StringThread
    sys.modules[MODULE] = module
    return module


class _Loader:
    """Provides the source to `linecache`, which `traceback` and `inspect` use."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_source(self, name: str) -> str:
        return self._text


def _is_coroutine_function(value: object) -> bool:
    """Same result as `inspect.iscoroutinefunction`, without importing `inspect` (10 ms)."""
    while True:
        if type(value) is MethodType:
            value = value.__func__
        elif type(value).__name__ == "partial" and type(value).__module__ == "functools":
            value = getattr(value, "func", None)
        else:
            break
    return type(value) is FunctionType and bool(value.__code__.co_flags & _CO_COROUTINE)


def _kind(value: object) -> str:
    if type(value) is FunctionType:
        return "an async generator (it has a `yield`)" if value.__code__.co_flags & 0x200 else "a plain function"
    return f"of type `{type(value).__name__[:100]}`"
