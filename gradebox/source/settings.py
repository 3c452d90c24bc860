"""Finds the statements that set up modules, such as `getcontext().prec = 50`, also by functions of the author."""

import ast
from collections.abc import Iterator
from types import FunctionType, ModuleType

from gradebox.source import imports
from gradebox.source.live import is_of_another
from gradebox.source.module import Module, Statement, read
from gradebox.source.own_modules import find, is_own
from gradebox.source.state import effects, is_program

SETTING = ast.Expr | ast.Assign | ast.AugAssign
"""The statements that may set up a module."""


def set_up_by(statement: Statement, module: Module, known: dict[str, str], modules: dict[str, Module]) -> str | None:
    """What a statement configures, as `imports.sets_up` and `imports.stores_in`, also in functions of the author that
    it does nothing but call: `set_up()`, `rules.set_up()`, `is_ready = set_up()`.

    Args:
        statement: a statement of the module.
        module: the module.
        known: the full names of what the module imports.
        modules: the author's modules that were read, by name.
    """
    found = _sets_up(statement.node, known)
    if statement.is_main or (found and not is_own(found)):
        return found
    return _set_up_by_functions(statement, module, modules) or found


def _set_up_by_functions(statement: Statement, module: Module, modules: dict[str, Module]) -> str | None:
    node = statement.node
    call = node.value if isinstance(node, ast.Expr | ast.Assign) else None
    if not isinstance(call, ast.Call) or (isinstance(node, ast.Assign) and (call.args or call.keywords)):
        return None  # `x = f(y)` computes a value
    called = _called(call, module, modules)
    parts = [(part, home) for function, home in called for part in ast.walk(function.node)]
    if any(isinstance(part, ast.For | ast.While) for part, _ in parts):  # it may train for hours
        return None
    found = next(filter(None, (_sets_up(part, home.imported) for part, home in parts)), None)
    if found is None:
        return None
    for each, home in ((statement, module), *called):
        used = effects(each, home)[1] | each.names.deferred
        if is_program(used, home, found.partition(".")[0]):
            return None
    return found


def _sets_up(node: ast.AST, known: dict[str, str]) -> str | None:
    return (imports.sets_up(node, known) or imports.stores_in(node, known)) if isinstance(node, SETTING) else None


def _called(call: ast.Call, module: Module, modules: dict[str, Module]) -> list[tuple[Statement, Module]]:
    """The author's functions that run by a call, also through others, each with its module."""
    found: dict[Statement, Module] = {}
    todo: list[tuple[ast.AST, Module]] = [(call, module)]
    while todo:
        node, home = todo.pop()
        for part in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
            for function, of in _definitions_of(part.func, home, modules):
                if function not in found:
                    found[function] = of
                    todo.append((function.node, of))
    return list(found.items())


def _definitions_of(called: ast.expr, module: Module, modules: dict[str, Module]) -> Iterator[tuple[Statement, Module]]:
    """The definition of a function, `set_up` or `rules.set_up`, if it is one of the author."""
    live: object = None
    name = called.id if isinstance(called, ast.Name) else ""
    if name:
        live = module.globals.get(name)
    elif isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
        owner = module.globals.get(called.value.id)
        live = vars(owner).get(called.attr) if isinstance(owner, ModuleType) else None
    if not isinstance(live, FunctionType):
        return
    if live.__globals__ is not module.globals:
        other = find(live.__module__) if is_of_another(live, module) else None
        if other is None:
            return
        module, name = read(other, modules), live.__name__
    for binder in module.binders.get(name, [])[-1:]:
        if isinstance(binder.node, ast.FunctionDef) or isinstance(getattr(binder.node, "value", None), ast.Lambda):
            yield binder, module
