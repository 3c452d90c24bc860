"""Takes a function of a file, which is imported, with what it uses of the author's modules."""

import importlib
import inspect
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

from gradebox._openai import openai_grader
from gradebox.cli.output import note
from gradebox.errors import GraderWarning, SourceError
from gradebox.source import extract, imports


def source_of_function(path: Path, name: str, *, plain: bool) -> str:
    """The source to upload. Its imports of packages stay, and the checks tell which of them the sandbox lacks.

    Args:
        path: the file.
        name: the function's name.
        plain: whether it is `grade(sample, item)`, as for OpenAI.

    Raises:
        SourceError: the file cannot be imported, or the function cannot stand alone.
    """
    with redirect_stdout(sys.stderr):  # what the author's modules print is no answer of the command
        function = _imported(path, name)
        with warnings.catch_warnings(record=True) as differences:
            warnings.simplefilter("always", GraderWarning)
            source = _source(function, plain=plain)
    for each in differences:
        note(f"warning: {each.message}")
    return source


def _source(function: Callable[..., object], *, plain: bool) -> str:
    return openai_grader(function, packages=True) if plain else extract(function, allowed=imports.may_be_package)


def _imported(path: Path, name: str) -> Callable[..., object]:
    folder, module = _module(path.resolve())
    sys.path.insert(0, str(folder))
    try:
        live = vars(importlib.import_module(module))
    except (Exception, SystemExit) as error:  # what the author's file raises
        raise SourceError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    if not (found := live.get("__file__")) or not path.samefile(found):
        raise SourceError(f"{path} cannot be imported, as another module is called {module}: rename the file")
    function: object = live.get(name)
    if not callable(function):
        there = [each for each, value in live.items() if inspect.iscoroutinefunction(value)]
        raise SourceError(f"{path} has no function {name!r}; its graders: {', '.join(there) or 'none'}")
    return function


def _module(path: Path) -> tuple[Path, str]:
    """The folder from which a file is imported, and its full name. Folders with `__init__.py` are its packages."""
    folder, names = path.parent, [path.stem]
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        names.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(names)
