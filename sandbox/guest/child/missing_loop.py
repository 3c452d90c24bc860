"""Notes whether code has asked for a running event loop in vain, as by `asyncio.sleep`. A grader may catch that error.

A source that does not mention asyncio runs without a loop, and may still wait by a package that imports asyncio late.
So does one that runs a loop itself, as by `asyncio.run`, and may wait besides.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from sandbox.guest.child.after_import import AfterImport

if TYPE_CHECKING:
    from types import ModuleType

_ASKING = {"asyncio.events": ("get_running_loop", "get_event_loop"), "asyncio.tasks": ("current_task",)}

asked: set[str] = set()
"""The functions that were called in vain. Each process of a grader has its own."""


def note_requests() -> None:
    """From now on, fills `asked`, if asyncio is not imported yet."""
    sys.meta_path.insert(0, AfterImport({module: partial(_note_all, names) for module, names in _ASKING.items()}))


def _note_all(names: tuple[str, ...], module: ModuleType) -> None:
    for name in names:
        _note(name, module)


def _note(name: str, module: ModuleType) -> None:
    get = getattr(module, name)

    def noted(*arguments: Any, **named: Any) -> Any:
        try:
            return get(*arguments, **named)
        except RuntimeError:
            asked.add(name)
            raise

    setattr(module, name, noted)
