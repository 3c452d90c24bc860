"""Makes the same input give the same score: `random`, numpy and torch have the same seed for each completion, for the
module body, which each sandbox runs, and in each program and process that a grader starts.

Hash seed, time zone and locale are set by the environment that the interpreter starts with.
"""

from __future__ import annotations

import os
import sys

from sandbox.guest.child.after_import import AfterImport

# Not imported from `typing`: each program that a grader starts imports this module, and would wait for that one.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_SEED = 0
# Each module, and where its function is. `torch.manual_seed` would also prepare generators of GPUs, which takes 90 µs.
_SEEDED = {
    "random": ("seed",),
    "numpy.random": ("seed",),
    "torch": ("default_generator", "manual_seed"),
}


def reseed() -> None:
    """Seeds the global generators of the modules that are imported."""
    for name in _SEEDED:
        module = sys.modules.get(name)
        if module is not None:
            _seed(name, module)


def _seed(name: str, module: ModuleType) -> None:
    found: Any = module
    for part in _SEEDED[name]:
        found = getattr(found, part, None)  # a grader's replacement of the module has none
    if found is not None:
        found(_SEED)


def seed_at_import() -> None:
    """From now on, generators are seeded when a grader imports them, in its module body or inside `grade`."""
    sys.meta_path.insert(0, AfterImport(dict.fromkeys(_SEEDED, _seed_from_now_on)))


def _seed_from_now_on(module: ModuleType) -> None:
    _seed(module.__name__, module)
    if module.__name__ == "random":  # which takes a random seed in each process that is forked
        os.register_at_fork(after_in_child=lambda: _seed("random", module))
