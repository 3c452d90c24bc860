"""Imports what most graders import, while nobody waits: a template then finds it there."""

from collections.abc import Callable
from importlib import import_module

# Neither `random`, which costs each completion a new seed once it is there, nor `asyncio`, which would put every grader
# into an event loop; nor anything that imports them. Nor `dataclasses`: with `inspect` and all that it imports, each
# child would be a twentieth dearer, and few graders have one.
MODULES = ("re", "json", "math", "string", "collections", "functools", "itertools", "typing")


def preload(wanted: Callable[[], bool]) -> None:
    """Imports them one by one, until this process is wanted."""
    for name in MODULES:
        if wanted():
            return
        import_module(name)
