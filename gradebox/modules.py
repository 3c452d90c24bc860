"""Modules of the author that a grader imports. They are uploaded in the grader's source, which calls `add_modules`."""

import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_PACKAGE = "__init__.py"

sources: dict[str, str] = {}
"""The texts of all modules that were added, by path. Tracebacks show their lines."""


def add_modules(files: Mapping[str, str]) -> None:
    """Makes modules importable. An import finds them before packages and the standard library.

    Args:
        files: the source of each module, by its path: `{"rewards/__init__.py": "", "rewards/text.py": "def …"}`.
    """
    sources.update(files)
    sys.meta_path.insert(0, _Finder(files))


class _Finder:
    """Finds and loads the modules; `import` calls its methods. The base classes in `importlib.abc` import for 20 ms."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = dict(files)

    def find_spec(self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        path = self._path(name)
        if path is None:
            return None
        is_package = path.endswith(_PACKAGE)
        return ModuleSpec(name, self, origin=path, is_package=is_package)  # type: ignore[arg-type]  # see above

    def create_module(self, _spec: ModuleSpec) -> None:
        """Leaves it to `import` to make the module."""

    def exec_module(self, module: ModuleType) -> None:
        path = self._path(module.__name__)
        assert path is not None  # `find_spec` found it
        exec(compile(self._files[path], path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102

    def get_source(self, name: str) -> str | None:
        """The text of a module, for `inspect` and `traceback`."""
        path = self._path(name)
        return None if path is None else self._files[path]

    def _path(self, name: str) -> str | None:
        folder = name.replace(".", "/")
        return next((path for path in (f"{folder}/{_PACKAGE}", f"{folder}.py") if path in self._files), None)
