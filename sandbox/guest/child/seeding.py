"""Makes the same input give the same score: `random`, numpy and torch have the same seed for each completion.

Hash seed, time zone and locale are set by the environment that the interpreter starts with.
"""

import sys
from functools import partial
from types import ModuleType

from sandbox.guest.child.after_import import AfterImport

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


def seed_at_import() -> None:
    """From now on, generators that a grader imports inside `grade` are seeded too."""
    sys.meta_path.insert(0, AfterImport({name: partial(_seed, name) for name in _SEEDED}))
