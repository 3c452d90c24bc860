"""Warns of environment variables that a grader reads and a sandbox does not have.

The grader then goes on with its default, so its scores may differ from those on its author's machine.
"""

import _ast
import os

from validators.syntax_tree import nodes, told_once

_OF_ENVIRONMENTS = frozenset(("ENVIRONMENT_DATA", "NLTK_DATA"))
_MISSING = (
    "the sandbox has no environment variable {name!r}, and none of yours: write its value into the "
    "source, or send it in the metadata of the threads"
)


def warnings(tree: _ast.Module) -> list[str]:
    """A warning for each variable that the source reads by its name and does not set."""
    read: list[tuple[int, str]] = []
    found = {*_OF_ENVIRONMENTS, *os.environ}
    for node in nodes(tree):
        key, is_set = _key(node)
        if isinstance(key, _ast.Constant) and isinstance(key.value, str):
            if is_set:
                found.add(key.value)
            else:
                read.append((key.lineno, key.value))
    return told_once((line, _MISSING.format(name=name[:100])) for line, name in read if name not in found)


def _key(node: _ast.AST) -> tuple[object, bool]:
    """The expression of the variable's name, if the node reads or sets one, and whether it sets it."""
    if isinstance(node, _ast.Subscript) and _is_of_os(node.value, "environ"):
        return node.slice, not isinstance(node.ctx, _ast.Load)
    if isinstance(node, _ast.Call) and node.args:
        called = node.func
        if _is_of_os(called, "getenv") or _is_of_os(called, "putenv"):
            return node.args[0], _is_of_os(called, "putenv")
        if isinstance(called, _ast.Attribute) and _is_of_os(called.value, "environ"):
            return node.args[0], called.attr == "setdefault"
    return None, False


def _is_of_os(node: object, name: str) -> bool:
    """Whether this is `os.NAME`, or NAME alone."""
    if isinstance(node, _ast.Attribute):
        return node.attr == name and isinstance(node.value, _ast.Name) and node.value.id == "os"
    return isinstance(node, _ast.Name) and node.id == name
