"""The same input gives the same score: `random` starts at the same place for each completion.

Hash seed, time zone and locale are settled by the environment that the interpreter starts with.
"""

import sys
from collections.abc import Callable
from types import ModuleType

_SEED = 0


def reseed() -> None:
    """Seeds the global generator, where anybody has imported it."""
    module = sys.modules.get("random")
    if module is not None:
        module.seed(_SEED)


class SeedAtImport:
    """A finder for `sys.meta_path`: a grader that imports `random` inside `grade` finds it seeded too."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> object:
        """Lets the other finders find `random`, and seeds it once it has run."""
        if name != "random":
            return None
        for finder in sys.meta_path:
            spec = None if getattr(finder, "__name__", "") == cls.__name__ else finder.find_spec(name, None)
            if spec is not None and spec.loader is not None:
                _seed_after(spec.loader)
                return spec
        return None


def _seed_after(loader: object) -> None:
    run: Callable[[ModuleType], None] = loader.exec_module  # type: ignore[attr-defined]

    def run_and_seed(module: ModuleType) -> None:
        run(module)
        module.seed(_SEED)

    loader.exec_module = run_and_seed  # type: ignore[attr-defined]  # of this one loader
