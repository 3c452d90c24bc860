"""Walks a syntax tree without the module `ast`, which a check would have to import first."""

import _ast
from collections.abc import Iterator


def nodes(tree: _ast.AST) -> Iterator[_ast.AST]:
    """All nodes of a tree, in no particular order."""
    waiting: list[object] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, _ast.AST):
            yield node
            waiting += (getattr(node, field, None) for field in node._fields)


def inside(node: _ast.AST) -> list[_ast.AST]:
    """What the blocks of a statement or a module contain, in source order: statements, handlers and cases."""
    blocks = ("body", "handlers", "orelse", "cases", "finalbody")
    return [each for block in blocks for each in getattr(node, block, None) or ()]
