"""Warns of environment variables that a grader reads and a sandbox does not have.

The grader then goes on with its default, so its scores may differ from those on its author's machine.
"""

import _ast
import os
from collections.abc import Iterator

_OF_ENVIRONMENTS = frozenset(("ENVIRONMENT_DATA", "NLTK_DATA"))
_MISSING = (
    "line {line}: the sandbox has no environment variable {name!r}, and none of yours: write its value into the "
    "source, or send it in the metadata of the threads"
)


def warnings(tree: _ast.Module) -> list[str]:
    """A warning for each variable that is read by its name."""
    told: dict[str, str] = {}
    for line, name in sorted(_read(tree)):
        if name not in os.environ and name not in _OF_ENVIRONMENTS:
            told.setdefault(name, _MISSING.format(line=line, name=name[:100]))
    return [*told.values()]


def _read(tree: _ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of each variable that is read, as in `os.environ["X"]`, `os.environ.get("X")`, `os.getenv("X")`."""
    waiting: list[object] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, _ast.AST):
            key = _key(node)
            if isinstance(key, _ast.Constant) and isinstance(key.value, str):
                yield key.lineno, key.value
            waiting += (getattr(node, field, None) for field in node._fields)


def _key(node: _ast.AST) -> object:
    """The expression of the variable's name, if the node reads one."""
    if isinstance(node, _ast.Subscript) and isinstance(node.ctx, _ast.Load) and _name(node.value) == "environ":
        return node.slice
    if isinstance(node, _ast.Call) and node.args:
        of = node.func.value if isinstance(node.func, _ast.Attribute) and node.func.attr == "get" else None
        if _name(node.func) == "getenv" or _name(of) == "environ":
            return node.args[0]
    return None


def _name(node: object) -> str:
    return node.attr if isinstance(node, _ast.Attribute) else node.id if isinstance(node, _ast.Name) else ""
