"""What the names of a module mean now, against what its text says."""

import ast
from collections.abc import Iterable, Iterator
from types import FunctionType

from gradebox._source_module import Module, Statement
from gradebox._source_names import is_definition
from gradebox.errors import SourceError

_RESTART = "Start Python (or the kernel) again, or pass the source as a string"


def wraps(value: object, function: FunctionType) -> bool:
    """Whether `value` is the function, perhaps with decorators around it."""
    for _ in range(100):
        if value is function or value is None:
            break
        value = getattr(value, "__wrapped__", None)
    return value is function


def own_contents(container: object, module: Module, grader: FunctionType) -> Iterator[FunctionType | type]:
    """The functions and classes of the module in a list, tuple, set or dict."""
    items: Iterable[object] = ()
    if isinstance(container, dict | list | tuple | set):
        items = container.values() if isinstance(container, dict) else container
    for item in items:
        if not isinstance(item, FunctionType | type) or item.__module__ != module.globals.get("__name__"):
            continue
        # The grader's own decorator puts it there; a nested function has come by the code that made it.
        if item.__name__ == item.__qualname__ != "<lambda>" and not wraps(item, grader):
            yield item


def check_definition(statement: Statement, name: str, module: Module, grader: FunctionType) -> None:
    """What an undecorated `def` or `class` says must be what its name means now.

    Raises:
        SourceError: the text was changed, or the name was given another value while the program ran.
    """
    node = statement.node
    if not is_definition(node) or node.decorator_list or node.name != name or name not in module.globals:
        return
    if module.binders[name][-1] is not statement:
        return
    live = module.globals[name]
    if isinstance(node, ast.ClassDef) and isinstance(live, type):
        _check_methods(live, statement, grader.__code__.co_filename)
    elif isinstance(live, FunctionType) and not isinstance(node, ast.ClassDef):
        module.definition(live.__code__, name)
    else:
        raise SourceError(
            f"{name} was a definition in {statement.where} and is now {type(live).__name__}: something replaced it "
            f"while the program ran. {_RESTART}"
        )


def _check_methods(live: type, statement: Statement, filename: str) -> None:
    for method in vars(live).values():
        if not isinstance(method, FunctionType) or method.__code__.co_filename != filename:
            continue
        if method.__code__ not in statement.text.codes and "assert" not in statement.source:
            raise SourceError(
                f"{method.__qualname__} is not what {statement.where} says: the text was changed on disk since it was "
                f"imported. {_RESTART}"
            )
