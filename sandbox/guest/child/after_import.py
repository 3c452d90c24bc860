"""Runs a function on modules right after they have been imported."""

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class AfterImport:
    """A finder for `sys.meta_path`, which calls `run` on each module of these names after it has been executed."""

    def __init__(self, names: tuple[str, ...], run: Callable[[ModuleType], None]) -> None:
        self._names = names
        self._run = run

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Delegates to the other finders."""
        if name not in self._names:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path)
            if spec is not None and spec.loader is not None:
                execute = spec.loader.exec_module

                def execute_and_run(module: ModuleType, execute: Callable[[ModuleType], None] = execute) -> None:
                    execute(module)
                    self._run(module)

                spec.loader.exec_module = execute_and_run  # type: ignore[method-assign]  # only of this loader
                return spec
        return None
