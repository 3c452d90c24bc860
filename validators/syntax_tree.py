"""Walks a syntax tree without the module `ast`, which a check would have to import first."""

import _ast
from collections.abc import Iterable, Iterator


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


def imported(tree: _ast.Module) -> dict[str, str]:
    """The full names of what is imported: `{"stopwords": "nltk.corpus.stopwords", "nltk": "nltk"}`."""
    known: dict[str, str] = {}
    for node in nodes(tree):
        if isinstance(node, _ast.Import):
            for each in node.names:
                top = each.name.partition(".")[0]
                known |= {each.asname: each.name} if each.asname else {top: top}
        elif isinstance(node, _ast.ImportFrom) and node.module and not node.level:
            known |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return known


def full_name(called: _ast.expr, known: dict[str, str]) -> str:
    """`nltk.corpus.stopwords.words` of `stopwords.words`; empty if the call is of something else than an import."""
    parts: list[str] = []
    while isinstance(called, _ast.Attribute):
        parts.append(called.attr)
        called = called.value
    if not isinstance(called, _ast.Name) or called.id not in known:
        return ""
    return ".".join([known[called.id], *reversed(parts)])


def told_once(found: Iterable[tuple[int, str]]) -> list[str]:
    """Warnings from pairs of a line and a text, by line: one for each text, with its first line."""
    first: dict[str, int] = {}
    for line, text in sorted(found):
        first.setdefault(text, line)
    return [f"line {line}: {text}" for text, line in first.items()]
