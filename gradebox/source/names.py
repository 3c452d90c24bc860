"""Finds the names of its module that a statement binds, reads and changes."""

import ast
import symtable
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeGuard

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = {"listcomp", "setcomp", "dictcomp", "genexpr"}
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
# Methods that change a list, dict or set in place, or what a package made.
MUTATORS = {
    *("add", "append", "clear", "difference_update", "discard", "extend", "insert", "intersection_update", "pop"),
    *("appendleft", "extendleft", "move_to_end", "popleft", "rotate", "set", "subtract", "__setitem__"),
    *("popitem", "remove", "reverse", "setdefault", "sort", "symmetric_difference_update", "update"),
    *("add_pipe", "execute", "executemany", "executescript", "fit", "fit_predict", "fit_transform", "partial_fit"),
}
# Functions that change their first argument.
ARGUMENT_CHANGERS = {
    *("SubElement", "heapify", "heappop", "heappush", "heappushpop", "heapreplace", "insort", "insort_left"),
    *("insort_right", "shuffle"),
}


@dataclass
class Names:
    """The names of a module that a statement uses, by kind of use.

    Attributes:
        binds: names that exist after it has run.
        eager: names that it reads while it runs.
        deferred: names that its functions read when they are called.
        annotations: names in annotations that Python does not evaluate by itself.
        stores: names whose attributes or items it sets while it runs.
        calls: names whose methods it calls as a statement or a decorator.
        rebinds: names that its functions bind by `global`.
        mutates: names whose values its functions change in place.
        commands: names whose methods its functions call as a statement.
    """

    binds: set[str] = field(default_factory=set)
    eager: set[str] = field(default_factory=set)
    deferred: set[str] = field(default_factory=set)
    annotations: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
    rebinds: set[str] = field(default_factory=set)
    mutates: set[str] = field(default_factory=set)
    commands: set[str] = field(default_factory=set)


def names_of(node: ast.stmt, text: str, features: str) -> Names:
    """The names that the statement in `text` uses. `features` has the `from __future__` lines in force."""
    names = Names()
    try:
        table = symtable.symtable(features + text, "<grader>", "exec")
    except SyntaxError:  # an `await` at the top of a notebook cell
        return Names(binds=_names(node, ast.Store), eager=_names(node, ast.Load))
    for symbol in table.get_symbols():
        if symbol.is_assigned() or symbol.is_imported():
            names.binds.add(symbol.get_name())
        if symbol.is_referenced():
            names.eager.add(symbol.get_name())
    names.binds -= _future_names(features)
    for child in table.get_children():
        _read_scope(child, names, runs_now=True)
    if not isinstance(node, Definition):
        names.binds |= names.rebinds  # the target of `:=` in a comprehension
    names.annotations = set(_annotated(node)) - names.eager - names.deferred
    _read_changes(node, names)
    return names


def is_definition(node: ast.AST) -> TypeGuard[Definition]:
    """Whether this is a `def` or a `class`."""
    return isinstance(node, Definition)


def computes_when_defined(node: Definition) -> bool:
    """Whether a `def` has a decorator or a default; a class always runs its body."""
    if isinstance(node, ast.ClassDef):
        return True
    return bool(node.decorator_list or node.args.defaults or node.args.kw_defaults)


def first_line(node: ast.stmt) -> int:
    """The line of the first decorator, or of the statement itself, as in `co_firstlineno`."""
    decorators = node.decorator_list if is_definition(node) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def changed_expressions(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions whose values a node changes: `a.b` of `a.b[0] = 1`, of `a.b.append(1)`, and of `a.b = 1`."""
    if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
        value: ast.expr = node.value if isinstance(node, ast.Subscript) else node
        while isinstance(value, ast.Subscript):
            value = value.value
        yield value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
        yield node.func.value


def root(node: ast.expr) -> str | None:
    """`a` of `a.b[c].d(e)`."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _names(node: ast.stmt, context: type[ast.expr_context]) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, context)}


def _future_names(features: str) -> set[str]:
    return {alias.name for node in ast.parse(features).body if isinstance(node, ast.ImportFrom) for alias in node.names}


def _read_scope(table: symtable.SymbolTable, names: Names, *, runs_now: bool) -> None:
    kind = table.get_type()
    runs_now = runs_now and (kind != "function" or table.get_name() in _COMPREHENSIONS)
    for symbol in table.get_symbols():
        name = symbol.get_name()
        # A name that a class body binds is looked up in the module until it is bound: `class A: x = x`.
        if symbol.is_referenced() and (symbol.is_global() or (kind == "class" and symbol.is_assigned())):
            (names.eager if runs_now else names.deferred).add(name)
            if kind not in ("class", "function"):  # type parameters and type aliases are evaluated lazily
                names.deferred.add(name)
        if symbol.is_declared_global() and (symbol.is_assigned() or symbol.is_imported()):
            names.rebinds.add(name)
            names.deferred.add(name)  # `count += 1` does not count as a reference
    for child in table.get_children():
        _read_scope(child, names, runs_now=runs_now)


def _annotated(node: ast.stmt) -> Iterator[str]:
    for part in ast.walk(node):
        annotation = part.returns if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) else None
        if isinstance(part, ast.arg | ast.AnnAssign):
            annotation = part.annotation
        if annotation is not None:
            yield from _annotation_names(annotation)


def _annotation_names(annotation: ast.expr) -> Iterator[str]:
    for part in ast.walk(annotation):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            try:
                yield from _annotation_names(ast.parse(part.value, mode="eval").body)
            except SyntaxError:  # a string of some other kind, as in Literal["a b"]
                continue


def _read_changes(node: ast.stmt, names: Names) -> None:
    if is_definition(node):
        names.calls |= {name for item in node.decorator_list if _is_method(item) and (name := root(item))}
    for part, in_function in _parts(node, in_function=False):
        if isinstance(part, ast.Attribute | ast.Subscript) and not isinstance(part.ctx, ast.Load):
            _add(names.mutates if in_function else names.stores, part)
        elif isinstance(part, ast.Expr) and _is_method(part.value):
            _add(names.commands if in_function else names.calls, part.value)
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in MUTATORS:
            _add(names.mutates if in_function else names.calls, part)


def _add(to: set[str], changed: ast.expr) -> None:
    name = root(changed)
    if name is not None:
        to.add(name)


def _is_method(node: ast.expr) -> bool:
    return isinstance(node.func if isinstance(node, ast.Call) else node, ast.Attribute)


def _parts(node: ast.AST, *, in_function: bool) -> Iterator[tuple[ast.AST, bool]]:
    yield node, in_function
    inside = in_function or isinstance(node, _FUNCTIONS)
    for child in ast.iter_child_nodes(node):
        yield from _parts(child, in_function=inside)
