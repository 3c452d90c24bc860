"""Notes whether code has asked for a running event loop in vain, as by `asyncio.sleep`, and whether it could not run
one, as by `asyncio.run`, because one runs already. A grader may catch these errors.

A source that does not mention asyncio runs without a loop, and may still wait by a package that imports asyncio late.
So does one that runs a loop itself, as by `asyncio.run`, and may wait besides.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from sandbox.guest.child.after_import import AfterImport

if TYPE_CHECKING:
    from types import ModuleType

asked: set[str] = set()
"""The functions that were called in vain. Each process of a grader has its own."""
refused: set[str] = set()
"""The functions that run a loop and raised RuntimeError, as they do where one runs already, likewise."""
# `anyio.run` looks by these for a loop before it runs one.
_LOOKING = (("sniffio._impl", "current_task"), ("anyio._core._eventloop", "get_running_loop"))


def note_requests() -> None:
    """From now on, fills `asked` and `refused`, if asyncio is not imported yet."""
    functions = {
        "asyncio.events": _note_events,
        "asyncio.tasks": lambda module: _note("current_task", module, asked),
        "asyncio.base_events": lambda module: _note("_check_running", module.BaseEventLoop, refused),
        "asyncio.runners": _note_runners,
        "anyio._core._eventloop": _note_anyio,
    }
    sys.meta_path.insert(0, AfterImport(functions))


def _note_events(module: ModuleType) -> None:
    _note("get_running_loop", module, asked)
    _note("get_event_loop", module, asked)
    begin: Any = module._set_running_loop

    def begin_noted(loop: object) -> None:
        asked.discard("get_event_loop")  # it raised, and the code made a loop of its own: many do both
        begin(loop)

    module._set_running_loop = begin_noted  # type: ignore[attr-defined]


def _note_runners(module: ModuleType) -> None:
    _note("run", module, refused)
    _note("run", module.Runner, refused)


def _note_anyio(module: ModuleType) -> None:
    _note("run", module, refused)
    for name in {"get_async_backend", "get_asynclib"} & vars(module).keys():  # the second one in anyio 3
        _note(name, module, asked)


def _note(name: str, owner: Any, into: set[str]) -> None:
    function = getattr(owner, name)

    def noted(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except RuntimeError:
            caller = sys._getframe(1).f_globals.get("__name__")
            if caller != "logging":  # each of its records asks for the task, from Python 3.12 on
                into.add("get_event_loop" if (caller, name) in _LOOKING else name)
            raise

    setattr(owner, name, noted)
