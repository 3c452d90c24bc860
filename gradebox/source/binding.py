"""Finds the statements that give a name of a module its value."""

from __future__ import annotations

import ast
import importlib
from types import ModuleType

from gradebox.source import imports
from gradebox.source.closure import Closure
from gradebox.source.module import Module, Statement, read
from gradebox.source.names import is_definition
from gradebox.source.own_modules import find, resolved

_MOST_IMPORTS = 20  # through which a value came


def statements_binding(name: str, before: int | None, module: Module) -> list[Statement]:
    """The statements that give `name` its value: the last that rebinds it, and those that change it after that.

    Those before the statement with the index `before`, or all of them.
    """
    found = [s for s in module.binders.get(name, []) if before is None or s.index < before]
    defining = module.defining(name) if before is None else None
    while defining in found and found[-1] is not defining and is_definition(found[-1].node):
        found.pop()  # the cell failed above this `def`
    starts = [n for n, statement in enumerate(found) if _binds_anew(statement, name)]
    return found[starts[-1] :] if starts else found


def origin(statement: Statement, name: str, closure: Closure) -> Statement:
    """The statement of the author's modules by which an imported name has its value."""
    module = closure.module
    for _ in range(_MOST_IMPORTS):
        node = statement.node
        own = find(resolved(node, module.package)) if isinstance(node, ast.ImportFrom) else None
        if own is None or not isinstance(node, ast.ImportFrom):
            break
        name = next((each.name for each in node.names if imports.bound_name(each, node) == name), name)
        module = read(own, closure.rules.known)
        if name not in module.binders:
            break
        statement = module.binders[name][-1]
    return statement


def star_import(name: str, closure: Closure, after: int = -1, before: int | None = None) -> Statement | None:
    """The last `from … import *` that has this name, if there is one between the statements with these indices."""
    for statement in reversed(closure.module.statements[after + 1 : before]):
        node = statement.node
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            if imports.is_missing(node, closure.allowed, closure.refused):
                source = getattr(closure.module.globals[name], "__module__", None)
                if source == node.module:
                    return statement
            elif _exports(importlib.import_module(resolved(node, closure.module.package)), name):
                return statement
    return None


def _exports(module: ModuleType, name: str) -> bool:
    exported = getattr(module, "__all__", None)
    return hasattr(module, name) and (not name.startswith("_") if exported is None else name in exported)


def _binds_anew(statement: Statement, name: str) -> bool:
    """Whether the statement always binds the name, independently of its previous value."""
    node = statement.node
    if name in statement.names.eager:
        return False
    if isinstance(node, ast.Import):
        return not any("." in alias.name and not alias.asname for alias in node.names)
    if isinstance(node, ast.AnnAssign):
        return node.value is not None
    return is_definition(node) or isinstance(node, ast.Assign | ast.ImportFrom)
