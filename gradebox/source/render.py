"""Writes the copy of a grader as a text."""

import ast
import re

from gradebox.source.closure import Closure
from gradebox.source.copy import Copy
from gradebox.source.module import Statement
from gradebox.source.names import Definition, is_definition
from gradebox.source.own_modules import find

_OWN_NAME = re.compile(r"[.\"']__(qual)?name__\b")
# For code that reads the name of the grader, as a decorator may.
_NAMED = """def _gradebox_named(function):
    function.__name__ = function.__qualname__ = "{name}"
    return function"""
_ESCAPED = re.compile(r"[\x00-\x08\x0b-\x1f]|\\\Z")  # what a raw literal cannot contain
_HEAD = re.compile(r"((?:async[ \t\\\n]+)?def[ \t\\\n]+)[^\s(\[\\]+")


def rendered(copy: Copy, statement: Statement, node: Definition) -> str:
    """The source that is uploaded; `node`, in `statement`, defines the grader."""
    module = copy.main.module
    grader = _rename(module.slice(statement, node), node, copy)
    return _text_of(copy.main, (statement, grader), _own_modules(copy, node))


def _rename(text: str, node: Definition, copy: Copy) -> str:
    name = copy.main.user
    if name == "grade":
        return text
    decorators = "\n".join(
        text.split("\n")[: node.lineno - min([node.lineno, *(d.lineno for d in node.decorator_list)])]
    )
    renamed = decorators + _HEAD.sub(r"\1grade", text[len(decorators) :], count=1)
    taken = (statement.source for closure in copy.closures() for statement in closure.taken)
    if any(_OWN_NAME.search(each) for each in (text, *taken)):
        named = _NAMED.format(name=name)
        head = f"{decorators}\n" if decorators else ""
        renamed = f"{named}\n\n\n{head}@_gradebox_named\n{renamed[len(decorators) :].lstrip()}"
    return f"{renamed}\n\n\n{name} = grade" if copy.main.calls_itself else renamed


def _text_of(closure: Closure, grader: tuple[Statement, str] | None = None, head: str = "") -> str:
    """The text of a module.

    Args:
        closure: its statements and values.
        grader: the grader's text, and the statement that defines it.
        head: a text to begin with.
    """
    pieces = [
        (each.index, 0, _statement(closure, each, names), is_definition(each.node))
        for each, names in closure.taken.items()
    ]
    pieces += [
        (place.index if place else -1, 1, f"{name} = {value}", False) for name, (place, value) in closure.values.items()
    ]
    if grader:
        pieces.append((grader[0].index, 2, grader[1], True))
    end = len(closure.module.statements)
    pieces += [(end, 3, f"import {name} as _{name.replace('.', '_')}", False) for name in closure.imported_last()]
    pieces.sort(key=lambda piece: piece[:2])
    source = closure.module.features + head
    after_definition = bool(source)
    for n, (_, _, text, definition) in enumerate(pieces):
        gap = "" if n == 0 else "\n\n\n" if definition or after_definition else "\n"
        source += gap + text
        after_definition = definition
    return source + "\n" if source else ""


def _statement(closure: Closure, statement: Statement, names: set[str]) -> str:
    node = closure.shown(statement, names)
    return statement.source if node is statement.node else ast.unparse(node)


def _own_modules(copy: Copy, node: Definition) -> str:
    """The statements that add the author's modules; empty if the grader imports none."""
    if not copy.own:
        return ""
    files = {_path(name): _text_of(closure) for name, closure in copy.own.items()}
    items = "".join(f'    "{path}": {_quoted(text)},\n' for path, text in sorted(files.items()))
    main = copy.main
    nodes = [node, *(main.shown(each, names) for each, names in main.taken.items())]
    is_relative = any(isinstance(part, ast.ImportFrom) and part.level for each in nodes for part in ast.walk(each))
    package = f"__package__ = {main.module.package!r}\n" if is_relative else ""
    return f"from gradebox.modules import add_modules\n\nadd_modules({{\n{items}}})\n{package}"


def _path(name: str) -> str:
    return name.replace(".", "/") + ("/__init__.py" if hasattr(find(name), "__path__") else ".py")


def _quoted(text: str) -> str:
    """A literal of the text, which shows it as it is if that is possible."""
    for quote in ('"""', "'''"):
        if text and quote not in text and not _ESCAPED.search(text):
            return f"r{quote}\n{text}{quote}"
    return "(\n" + "".join(f"        {line!r}\n" for line in text.splitlines(keepends=True)) + "    )" if text else '""'
