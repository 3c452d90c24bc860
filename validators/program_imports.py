"""Warns of imports in texts of the source that fail in a sandbox: texts of programs that the grader runs.

Each such program fails. The grader then scores every completion that needs one as if it were wrong.
"""

import _ast
from collections.abc import Iterator, Sequence

from validators import own_modules
from validators.imports import is_there
from validators.syntax_tree import nodes, told_once

HINTS = ("exec", "eval", "compile", "subprocess", "runpy")
"""Texts of which a source has one if it runs a text as a program."""
_MISSING = (
    "a text imports `{name}`, which the sandbox does not have: if the grader runs it as a program, that "
    "fails, also for right completions. To have it, "
)
_ALONE = (
    "make an environment with its package (`gradebox environments create NAME {name}`), and name that when the grader "
    "is created (`--environment NAME`)"
)
_NOT_AMONG = "add its package to the environment (`gradebox environments update`)"


def warnings(tree: _ast.Module, folders: Sequence[str] = (), own: frozenset[str] = frozenset()) -> list[str]:
    """A warning for each module that a text imports and the sandbox lacks. The arguments are those of
    `imports.warnings`.
    """
    texts = list(_texts(tree))
    found = [(line, name) for line, text in texts for name in _imports(text)]
    given = {
        each
        for each in {name for _, name in found}
        if is_there(each, folders) or each in own or _is_made(each, [text for _, text in texts])
    }
    told = _MISSING + (_NOT_AMONG if folders else _ALONE)
    return told_once((line, told.format(name=name[:100])) for line, name in found if name not in given)


def _texts(tree: _ast.Module) -> Iterator[tuple[int, str]]:
    """First line and value of each text, without modules of the author, and statements, such as docstrings."""
    unused = {id(node.value) for node in nodes(tree) if isinstance(node, _ast.Expr)}
    unused |= {id(module) for _, module in own_modules.constants(tree)}
    for node in nodes(tree):
        if isinstance(node, _ast.Constant) and isinstance(node.value, str) and id(node) not in unused:
            yield node.lineno, node.value


def _imports(text: str) -> Iterator[str]:
    """The top module of each statement that imports, as far as lines show it."""
    if "import" not in text:
        return
    for line in text.split("\n"):
        for statement in line.partition("#")[0].split(";"):
            words = statement.split()
            if words[:1] == ["from"] and words[2:3] == ["import"]:
                yield from _tops(words[1:2])
            elif words[:1] == ["import"]:
                yield from _tops(" ".join(words[1:]).split(","))


def _tops(modules: list[str]) -> Iterator[str]:
    for each in modules:
        module, *renamed = each.split() or [""]
        top = module.partition(".")[0]
        if top.isidentifier() and renamed[:1] in ([], ["as"]) and len(renamed) in (0, 2):
            yield top


def _is_made(name: str, texts: list[str]) -> bool:
    """Whether the grader makes this module: it names its file, or the module itself, as in `ModuleType("solution")`."""
    return any(text == name or f"{name}.py" in text for text in texts)
