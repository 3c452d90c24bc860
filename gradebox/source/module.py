"""The text in which a function was defined: a file, the cells of a notebook, or the inputs of an interactive Python."""

import __future__

import ast
import functools
import inspect
import linecache
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from gradebox.errors import SourceError
from gradebox.snapshot.function_code import code_text
from gradebox.source.imports import full_names
from gradebox.source.names import Definition, Names, first_line, is_definition, names_of

# The compiler flag of each feature that this Python does not have without it.
_FEATURES = {
    name: getattr(__future__, name).compiler_flag
    for name in __future__.all_feature_names
    if (getattr(__future__, name).getMandatoryRelease() or (99,)) > sys.version_info
}
# Cell magics whose body runs in the notebook's own namespace.
_BODY_MAGICS = {"time", "capture", "timeit", "prun"}
# Of the interactive Python: the new REPL, and the basic one of 3.13 and 3.14.
_INPUT = re.compile(r"<(?:python-input-|stdin>-|stdin-)([0-9]+)>?")


@dataclass(eq=False)
class Text:
    """One file or one cell. `flags` are the compiler flags of the `from __future__` imports in force."""

    label: str
    source: str
    flags: int

    @functools.cached_property
    def lines(self) -> list[bytes]:
        """The lines as bytes, because the compiler counts columns in bytes."""
        return [line.encode() for line in self.source.split("\n")]

    def defines(self, code: CodeType) -> bool:
        """Whether this text defines a function or class with this code. Python compiles a file as a whole, and a
        notebook each statement alone, which may give other code for names that the text imports.
        """
        return code in self._codes or code in self._codes_alone or self.defines_elsewhere(code)

    def defines_elsewhere(self, code: CodeType, line: int | None = None) -> bool:
        """Whether this text defines, in that line or any, a function that does the same, and autoreload put it in place
        of the one that was imported. It compiles a function alone, so that the lines differ.
        """
        if not _has_autoreload():
            return False
        same = (each for each in self._codes if each.co_name == code.co_name and code_text(each) == code_text(code))
        return any(line in (None, each.co_firstlineno) for each in same)

    @functools.cached_property
    def _codes(self) -> set[CodeType]:
        return set(_inner_codes(self._compiled(self.source)))

    @functools.cached_property
    def _codes_alone(self) -> set[CodeType]:
        statements = (ast.Module([node], []) for node in ast.parse(self.source).body)
        return {code for part in statements for code in _inner_codes(self._compiled(part))}

    def _compiled(self, part: str | ast.Module) -> CodeType:
        flags = self.flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code: CodeType = compile(part, self.label, "exec", flags, dont_inherit=True)
        return code


@dataclass(eq=False)
class Statement:
    """A statement at module level.

    Attributes:
        source: its exact text without indentation.
        is_main: whether it stands below `if __name__ == "__main__":`.
    """

    index: int
    node: ast.stmt
    text: Text
    source: str
    names: Names
    is_main: bool

    @property
    def where(self) -> str:
        """The file or cell, and the line, for error messages."""
        return f"{self.text.label}, line {self.node.lineno}"

    @functools.cached_property
    def calls(self) -> list[ast.Call]:
        """All calls in it, also in functions."""
        return [part for part in ast.walk(self.node) if isinstance(part, ast.Call)]


class Module:
    """The statements of a module, in the order in which they ran."""

    def __init__(self, globals_: dict[str, Any], texts: list[Text], filename: str) -> None:
        """Reads `texts`, which defined what is in `globals_`. `filename` is that of the code which was compiled."""
        self.globals = globals_
        self.filename = filename
        self.features = _features(texts[0].flags if texts else 0)
        self.statements: list[Statement] = []
        for text in texts:
            self._read(text)
        # Statements that may change a value in place.
        self.changing = [s for s in self.statements if s.names.stores or s.names.calls or _calls(s.node)]
        self.parts: dict[int, set[int]] = {}  # of the objects that were searched
        self.changes: dict[str, list[Statement]] = {}  # of the names that were searched
        self.called: dict[Statement, list[tuple[Statement, Module]]] = {}  # by the statements that were searched
        self.settings: dict[Statement, list[str]] = {}  # of the statements that were searched
        self.binders: dict[str, list[Statement]] = {}
        self._definitions: dict[tuple[str, int], list[tuple[Statement, Definition]]] = {}
        for statement in self.statements:
            for name in statement.names.binds:
                self.binders.setdefault(name, []).append(statement)
            for node in _definitions(statement.node):
                self._definitions.setdefault((node.name, first_line(node)), []).append((statement, node))

    @classmethod
    def of_function(cls, function: FunctionType) -> "Module":
        """The module of a function, from the text in which it was defined.

        Raises:
            SourceError: the text does not exist, or has changed.
        """
        return cls(function.__globals__, _texts(function), function.__code__.co_filename)

    @classmethod
    def of_file(cls, module: ModuleType) -> "Module":
        """A module of the author; one without a file, as a package may be, has no statements.

        Raises:
            SourceError: the file is not Python any more.
        """
        path = getattr(module, "__file__", None) or ""
        linecache.checkcache(path)
        source = "".join(linecache.getlines(path, vars(module)))
        if not _parses(source):
            raise _changed_on_disk(Path(path), module.__name__)
        return cls(vars(module), [Text(Path(path).name, source, _flags(source))], path)

    @property
    def package(self) -> str | None:
        """The package that its relative imports start from."""
        spec = self.globals.get("__spec__")
        package: str | None = self.globals.get("__package__") or getattr(spec, "parent", None)
        return package

    @functools.cached_property
    def imported(self) -> dict[str, str]:
        """The full names of all that it imports, also in functions."""
        return full_names(part for statement in self.statements for part in ast.walk(statement.node))

    def definition(self, code: CodeType, name: str) -> tuple[Statement, Definition]:
        """The statement that contains the `def` of `code`, and the `def` itself.

        Raises:
            SourceError: the text does not contain this `def`.
        """
        for statement, node in reversed(self._definitions.get((code.co_name, code.co_firstlineno), [])):
            if _is_code_of(code, node, statement.text):
                return statement, node
        for (defined, line), found in self._definitions.items():
            if defined == code.co_name and found[-1][0].text.defines_elsewhere(code, line):
                return found[-1]
        raise SourceError(
            f"{name} is not what {Path(code.co_filename).name}, line {code.co_firstlineno} says: the text was changed "
            "on disk since it was imported, or the function was replaced while the program ran. "
            "Start Python (or the kernel) again, or pass the source as a string"
        )

    def defining(self, name: str) -> Statement | None:
        """The statement that defined the function which the name is now, if one did."""
        live = self.globals.get(name)
        function = inspect.unwrap(live) if isinstance(live, FunctionType) else None
        if not isinstance(function, FunctionType):
            return None
        defined = self._definitions.get((name, function.__code__.co_firstlineno), [])
        return next((each for each, _ in reversed(defined) if each.text.defines(function.__code__)), None)

    def slice(self, statement: Statement, node: ast.stmt) -> str:
        """The text of a `def` inside a statement."""
        return _slice(statement.text, node)

    def _read(self, text: Text) -> None:
        is_main = self.globals.get("__name__") == "__main__"
        for node, in_main in _flat(ast.parse(text.source).body, is_main=is_main):
            body = _magic_body(node)
            if body is not None:
                self._read(Text(text.label, body, text.flags))
            elif not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
                source = _slice(text, node)
                names = names_of(node, source, self.features)
                self.statements.append(Statement(len(self.statements), node, text, source, names, in_main))


def read(module: ModuleType, known: dict[str, Module]) -> Module:
    """As `Module.of_file`, once for all."""
    if module.__name__ not in known:
        known[module.__name__] = Module.of_file(module)
    return known[module.__name__]


def _flags(source: str) -> int:
    """The flags of the `from __future__` imports in a file."""
    nodes = (node for node in ast.parse(source).body if isinstance(node, ast.ImportFrom))
    names = {alias.name for node in nodes if node.module == "__future__" for alias in node.names}
    return functools.reduce(int.__or__, (flag for name, flag in _FEATURES.items() if name in names), 0)


def _features(flags: int) -> str:
    names = [name for name, flag in _FEATURES.items() if flag & flags]
    return f"from __future__ import {', '.join(names)}\n" if names else ""


def _texts(function: FunctionType) -> list[Text]:
    code, name = function.__code__, function.__name__
    flags = code.co_flags & functools.reduce(int.__or__, _FEATURES.values())
    cells = function.__globals__.get("_ih")
    # Debuggers write cells to files, whose paths contain "ipykernel_". IPython keeps the text of a cell in `linecache`,
    # and Python keeps none of a text that a cell ran with `exec`.
    is_file = Path(code.co_filename).exists()
    in_cell = "ipykernel_" in code.co_filename or (not is_file and bool(linecache.getlines(code.co_filename)))
    if isinstance(cells, list) and in_cell:
        return [Text(f"cell {n}", cell, flags) for n, cell in enumerate(cells) if cell and _parses(cell)]
    if _INPUT.fullmatch(code.co_filename):
        return [Text(f"input {n}", text, flags) for n, text in _inputs() if _parses(text)]
    linecache.checkcache(code.co_filename)
    key = (code.co_filename, code.co_qualname, code.co_firstlineno)
    lines = linecache.getlines(code.co_filename, function.__globals__) or _lines_by_code().get(key)
    if not lines:
        again = f"run importlib.reload of {function.__module__}, if autoreload added the function to it; else "
        raise SourceError(
            f"{name} was defined in {code.co_filename}, and Python keeps no source of that: "
            f"{again if _has_autoreload() else ''}put the function in a file or a notebook cell, or pass the source as "
            "a string"
        )
    source = "".join(lines)
    if not _parses(source):
        raise _changed_on_disk(Path(code.co_filename), name)
    return [Text(Path(code.co_filename).name, source, flags)]


def _has_autoreload() -> bool:
    return "IPython.extensions.autoreload" in sys.modules


def _changed_on_disk(path: Path, name: str) -> SourceError:
    return SourceError(
        f"{path.name}, where {name} was defined, is not Python any more: it was changed on disk since it was imported. "
        "Mend it and start Python again, or pass the source as a string"
    )


def _inputs() -> list[tuple[int, str]]:
    """The inputs of the interactive Python, in order. Since 3.13 it keeps each input for its tracebacks."""
    kept = {name: linecache.getlines(name) for name in list(linecache.cache)}
    kept |= {name: lines for (name, *_), lines in _lines_by_code().items()}  # the whole input for each of its codes
    found = ((_INPUT.fullmatch(name), lines) for name, lines in kept.items())
    return sorted((int(match[1]), "".join(lines)) for match, lines in found if match)


def _lines_by_code() -> dict[tuple[str, str, int], list[str]]:
    """What later releases of 3.13 keep of interactive inputs and of `python -c`, by file, qualified name and line."""
    cache: dict[tuple[str, str, int], tuple[Any, ...]] = getattr(linecache, "_interactive_cache", {})
    return {key: entry[2] for key, entry in list(cache.items())}


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True


def _flat(body: list[ast.stmt], *, is_main: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """The statements of a module, with the branch of `if __name__ == "__main__":` that runs instead of that `if`.

    Each with whether it is of such a branch.
    """
    for node in body:
        if isinstance(node, ast.If) and ast.unparse(node.test) in (
            "__name__ == '__main__'",
            "'__main__' == __name__",
        ):
            yield from ((inner, is_main) for inner, _ in _flat(node.body if is_main else node.orelse, is_main=is_main))
        else:
            yield node, False


def _magic_body(node: ast.stmt) -> str | None:
    """The cell below `%%time`, and what stands behind `%time`: IPython makes it the last argument of
    `get_ipython().run_cell_magic(...)` and `run_line_magic(...)`.
    """
    call = node.value if isinstance(node, ast.Expr) else None
    function = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
    if not isinstance(call, ast.Call) or not re.fullmatch(r"(.*\W)?get_ipython\(\)\.run_(cell|line)_magic", function):
        return None
    values = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    magics, number = (_BODY_MAGICS, 3) if "cell" in function else ({"time"}, 2)
    if len(values) != number or values[0] not in magics or not isinstance(values[-1], str) or not _parses(values[-1]):
        return None
    return values[-1]


def _slice(text: Text, node: ast.stmt) -> str:
    assert node.end_lineno is not None and node.end_col_offset is not None
    first = first_line(node)
    lines = text.lines[first - 1 : node.end_lineno]
    before, after = lines[0][: node.col_offset], lines[-1][node.end_col_offset :]
    if (before.strip() and not is_definition(node)) or (after.strip() and not after.lstrip().startswith(b"#")):
        lines[-1] = lines[-1][: node.end_col_offset]  # the line has other statements
        lines[0] = lines[0][node.col_offset :]
    indent = text.lines[node.lineno - 1][: node.col_offset]
    kept = _inside_strings(node) if indent else set()
    out = [line if first + n in kept else line.removeprefix(indent) for n, line in enumerate(lines)]
    return b"\n".join(out).decode().rstrip()


def _inside_strings(node: ast.stmt) -> set[int]:
    """The lines that begin inside a string; their indentation is part of its value."""
    strings = (
        part
        for part in ast.walk(node)
        if isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Constant) and isinstance(part.value, str | bytes))
    )
    return {line for part in strings for line in range(part.lineno + 1, (part.end_lineno or part.lineno) + 1)}


def _calls(node: ast.stmt) -> bool:
    is_simple = isinstance(node, ast.Expr | ast.Assign | ast.AnnAssign)
    return is_simple and any(isinstance(part, ast.Call) for part in ast.walk(node))


def _definitions(node: ast.stmt) -> Iterator[Definition]:
    """The definitions at module level in a statement: the statement itself, or those in its blocks."""
    if is_definition(node):
        yield node
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield from _definitions(child)
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            for statement in child.body:
                yield from _definitions(statement)


def _inner_codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _inner_codes(constant)


def _is_code_of(code: CodeType, node: Definition, text: Text) -> bool:
    # Test runners rewrite assertions on import: code with assertions is recognized by its name and line only.
    return text.defines(code) or any(isinstance(part, ast.Assert) for part in ast.walk(node))
