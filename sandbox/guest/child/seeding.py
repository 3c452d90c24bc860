"""Makes the same input give the same score: `random`, numpy and torch have the same seed for each completion.

Hash seed, time zone and locale are set by the environment that the interpreter starts with.
"""

import sys
from collections.abc import Callable
from types import ModuleType

_SEED = 0
_SEEDED = {"random": "seed", "numpy.random": "seed", "torch": "manual_seed"}  # modules and their functions


def reseed() -> None:
    """Seeds the global generators of the modules that are imported."""
    for name in _SEEDED:
        module = sys.modules.get(name)
        if module is not None:
            _seed(name, module)


def _seed(name: str, module: ModuleType) -> None:
    seed = getattr(module, _SEEDED[name], None)  # a grader's replacement of the module has none
    if seed is not None:
        seed(_SEED)


class SeedAtImport:
    """A finder for `sys.meta_path` that also seeds generators which a grader imports inside `grade`."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> object:
        """Delegates to the other finders, and seeds the module after it has been executed."""
        if name not in _SEEDED:
            return None
        for finder in sys.meta_path:
            spec = None if getattr(finder, "__name__", "") == cls.__name__ else finder.find_spec(name, path)  # type: ignore[arg-type]  # as the import system gives it
            if spec is not None and spec.loader is not None:
                _seed_after(name, spec.loader)
                return spec
        return None


def _seed_after(name: str, loader: object) -> None:
    run: Callable[[ModuleType], None] = loader.exec_module  # type: ignore[attr-defined]

    def run_and_seed(module: ModuleType) -> None:
        run(module)
        _seed(name, module)

    loader.exec_module = run_and_seed  # type: ignore[attr-defined]  # only of this loader
