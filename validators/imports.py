"""Warns of imports that fail in a sandbox, at any place in the source.

If the grader catches the ImportError, its scores may differ from those on its author's machine.
"""

import _ast
import sys
from collections.abc import Iterator

_GIVEN = frozenset(("gradebox", "adaptive_harmony", "__future__"))
_NEED_NETWORK = frozenset(
    ("ftplib", "http.client", "imaplib", "poplib", "smtplib", "telnetlib", "urllib.request", "xmlrpc.client")
)
_BLOCKS = ("body", "handlers", "orelse", "cases", "finalbody")


def warnings(tree: _ast.Module) -> list[str]:
    """A warning for each module that is missing in the sandbox or needs a network."""
    told: dict[str, str] = {}
    for line, name in _imported(tree):
        top = name.partition(".")[0]
        if top not in _GIVEN and top not in sys.stdlib_module_names:
            told.setdefault(
                top,
                f"line {line}: `{top[:100]}` cannot be imported in the sandbox, which has the standard library alone: "
                "where the error is caught, the grader goes on without it",
            )
        elif name in _NEED_NETWORK:
            told.setdefault(name, f"line {line}: `{name}` needs a network, and the sandbox has none")
    return list(told.values())


def _imported(tree: _ast.Module) -> Iterator[tuple[int, str]]:
    """Line and module of each import, also inside functions and classes. Expressions cannot contain imports."""
    waiting: list[_ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, _ast.ImportFrom):
            if node.module and not node.level:
                yield node.lineno, node.module
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        else:
            for field in reversed(_BLOCKS):
                waiting.extend(reversed(getattr(node, field, None) or ()))
