"""Warns of imports that fail in a sandbox, anywhere in the source.

If the grader catches the error, its scores may differ from those on its author's machine.
"""

import _ast
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder

from validators.candidate import MODULE
from validators.syntax_tree import full_name, imported, inside, nodes

_GIVEN = frozenset(("gradebox", "adaptive_harmony", "__future__"))
_NEED_NETWORK = frozenset(
    (
        *("ftplib", "http.client", "imaplib", "poplib", "smtplib", "socket", "telnetlib", "urllib.request"),
        *("xmlrpc.client", "aiohttp", "anthropic", "httpx", "openai", "requests", "urllib3"),
    )
)
_ALONE = (
    "line {line}: `{name}` cannot be imported in the sandbox, which has the standard library alone: where the error is "
    "caught, the grader goes on without it. To have it, make an environment (`gradebox environments create NAME "
    "{name}`, with the name of its package) and name that when the grader is created (`--environment NAME`)"
)
_NOT_AMONG = (
    "line {line}: `{name}` cannot be imported, as no package of the environment has it: where the error is caught, the "
    "grader goes on without it. To have it, add its package to the environment (`gradebox environments update`)"
)
_ITSELF = (
    "line {line}: `grader` is the grader's own module, which hides the environment's package of that name: the grader "
    "goes on without the package. Use a package with another import name"
)
_OWN = (
    "line {line}: the sandbox has no module of yours for `from {name} import`: where the error is caught, the grader "
    "goes on without it. Upload what you use with `grade`: pass the function itself to the Python client, or its name "
    "by `--function` in the shell"
)
_NO_NETWORK = (
    "line {line}: `{name}` needs a network, and the sandbox has none: where the error is caught, the grader goes on "
    "without an answer"
)
_NOT_THERE = (
    "line {line}: `{name}` needs {what}, and the sandbox has none: where the error is caught, the grader goes on "
    "without an answer"
)
_NEEDS = {"polars": "epoll", "psutil": "/proc"}
_LOOK_FOR = frozenset(("__import__", "importlib.import_module", "importlib.util.find_spec"))


def warnings(tree: _ast.Module, folders: Sequence[str] = (), own: frozenset[str] = frozenset()) -> list[str]:
    """A warning for each module that is missing in the sandbox or needs a network.

    Args:
        tree: the source.
        folders: those of the packages that the grader may import.
        own: the first names of the author's modules that are in the source.
    """
    told: dict[str, str] = {}
    for line, name in (*_imported(tree), *_looked_for(tree)):
        top = name.partition(".")[0]
        on_network = name if name in _NEED_NETWORK else top
        if top in own:
            continue
        if not top:
            if not own:  # else they are relative to a package in the source
                told.setdefault(name, _OWN.format(line=line, name=name[:100]))
        elif on_network in _NEED_NETWORK:
            told.setdefault(on_network, _NO_NETWORK.format(line=line, name=on_network))
        elif top in _NEEDS and is_there(top, folders):
            told.setdefault(top, _NOT_THERE.format(line=line, name=top, what=_NEEDS[top]))
        elif top == MODULE:
            if _is_among(top, folders):
                told.setdefault(top, _ITSELF.format(line=line))
        elif top not in told and not is_there(top, folders):
            told[top] = (_NOT_AMONG if folders else _ALONE).format(line=line, name=top[:100])
    return list(told.values())


def is_there(top: str, folders: Sequence[str]) -> bool:
    """Whether a sandbox has this top module."""
    return top in _GIVEN or top in sys.stdlib_module_names or _is_among(top, folders)


def _is_among(top: str, folders: Sequence[str]) -> bool:
    return bool(folders) and PathFinder.find_spec(top, folders) is not None


def _imported(tree: _ast.Module) -> Iterator[tuple[int, str]]:
    """Line and module of each import, including those in functions and classes. Expressions cannot contain imports."""
    waiting: list[_ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, _ast.ImportFrom):
            if node.level:
                yield node.lineno, "." * node.level + (node.module or "")
            elif node.module:
                yield node.lineno, node.module
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, _ast.If) and _is_for_types(node.test):
            waiting.extend(reversed(node.orelse))
        else:
            waiting.extend(reversed(inside(node)))


def _looked_for(tree: _ast.Module) -> list[tuple[int, str]]:
    """Line and module of each call such as `find_spec("sympy")`. Modules that the source seems to make are left out:
    another text is their name, or has that of their file.
    """
    known = {"__import__": "__import__", **imported(tree)}
    calls = [node for node in nodes(tree) if isinstance(node, _ast.Call) and full_name(node.func, known) in _LOOK_FOR]
    given = [call.args[0] for call in calls if call.args]
    found = sorted((each.lineno, name) for each in given if (name := _text(each)) and name[0] != ".")
    others = [_text(node) for node in nodes(tree) if node not in given] if found else []
    return [each for each in found if not any(text == each[1] or f"{each[1]}.py" in text for text in others)]


def _text(node: _ast.AST) -> str:
    return node.value if isinstance(node, _ast.Constant) and isinstance(node.value, str) else ""


def _is_for_types(test: _ast.expr) -> bool:
    """Whether this is `TYPE_CHECKING`, which is false where a program runs."""
    return "TYPE_CHECKING" in (getattr(test, "id", ""), getattr(test, "attr", ""))
