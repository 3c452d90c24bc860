"""Before a sandbox is needed, loads the modules that most graders import, so that a template already has them."""

from collections.abc import Callable
from importlib import import_module

# Not `random`, because once it is loaded, each completion must seed it again. Not `asyncio`, because every grader would
# run in an event loop. No module that imports either. Not `dataclasses`, because with `inspect` and all that it
# imports, each child would cost a twentieth more, and few graders use it.
MODULES = ("re", "json", "math", "string", "collections", "functools", "itertools", "typing")


def preload(wanted: Callable[[], bool]) -> None:
    """Imports the modules one by one, until `wanted` reports that this process is needed."""
    for name in MODULES:
        if wanted():
            return
        import_module(name)
