"""Warns of generators of random numbers without a seed at the top of a module.

Each sandbox runs the module body, so each has another generator. With completion isolation, all completions of a
sandbox draw the same numbers from it, and so do both test runs, which share one.
"""

import _ast

from validators.syntax_tree import nodes

HINTS = ("Random()", "RandomState()", "default_rng()")
"""Texts of which a source has one if it makes such a generator."""
_NAMES = frozenset(hint.removesuffix("()") for hint in HINTS)
_UNSEEDED = (
    "line {line}: `{name}()` has no seed, so each sandbox that loads the grader draws other numbers from it: equal "
    "completions of one batch may get different scores. Write `{name}(0)`"
)


def warnings(tree: _ast.Module) -> list[str]:
    """A warning for each generator that the module body makes without a seed, unless its name is seeded anywhere."""
    seeded = {
        node.value.id
        for node in nodes(tree)
        if isinstance(node, _ast.Attribute) and node.attr == "seed" and isinstance(node.value, _ast.Name)
    }
    found = []
    waiting: list[object] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, _ast.AST) and not _is_skipped(node, seeded):
            waiting += (getattr(node, field, None) for field in node._fields)
            if isinstance(node, _ast.Call) and not node.args and not node.keywords:
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in _NAMES:
                    found.append((node.lineno, name))
    return [_UNSEEDED.format(line=line, name=name) for line, name in sorted(found)]


def _is_skipped(node: _ast.AST, seeded: set[str]) -> bool:
    """Whether this is a function, which the module body does not run, or the assignment of a seeded generator."""
    if isinstance(node, _ast.Assign):
        return any(isinstance(target, _ast.Name) and target.id in seeded for target in node.targets)
    return isinstance(node, _ast.FunctionDef | _ast.AsyncFunctionDef | _ast.Lambda)
