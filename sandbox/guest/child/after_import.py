"""Runs a function on modules right after they have been imported."""

from __future__ import annotations

import sys

# Not imported from `typing`: each program that a grader starts imports this module, and would wait for that one.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class AfterImport:
    """A finder for `sys.meta_path`. It calls the function of a module's name on the module once that is executed."""

    def __init__(self, functions: Mapping[str, Callable[[ModuleType], object]]) -> None:
        self._functions = functions

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Delegates to the other finders."""
        if name not in self._functions:
            return None
        for finder in sys.meta_path:
            spec = None if isinstance(finder, AfterImport) else finder.find_spec(name, path)
            if spec is not None and spec.loader is not None:
                execute = spec.loader.exec_module

                def execute_and_run(module: ModuleType, execute: Callable[[ModuleType], None] = execute) -> None:
                    execute(module)
                    self._functions[name](module)

                spec.loader.exec_module = execute_and_run  # type: ignore[method-assign]  # only of this loader
                return spec
        return None
