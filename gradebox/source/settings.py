"""Finds the statements that set up modules, such as `getcontext().prec = 50`, also by functions of the author."""

import ast
from collections.abc import Callable, Collection, Iterator
from types import FunctionType, ModuleType
from typing import NamedTuple

from gradebox.source import imports
from gradebox.source.live import is_of_another
from gradebox.source.module import Module, Statement, read
from gradebox.source.own_modules import find, is_own
from gradebox.source.state import effects, is_program

_SETTING = ast.Expr | ast.Assign | ast.AugAssign
_BLOCK = ast.If | ast.Try | ast.With
_LOOP = ast.For | ast.While


class Setting(NamedTuple):
    """What a statement sets.

    Attributes:
        name: its full name, or that of the function that sets it.
        by_program: whether the statement has a loop, which may train for hours, or does more than compute.
        is_inside: whether a function or a block of the statement sets it.
        functions: the functions that set it when they are called.
    """

    name: str
    by_program: bool = False
    is_inside: bool = False
    functions: Collection[Statement] = ()

    @property
    def module(self) -> str:
        """The module or object that has it."""
        return self.name.rpartition(".")[0]


def set_up_by(
    statement: Statement, module: Module, modules: dict[str, Module], uses: Callable[[str], bool]
) -> Setting | None:
    """What a statement configures, as `imports.sets_up` and `imports.stores_in`, also inside of `if`, `try`, `with` and
    loops, and in functions of the author that it does nothing but call: `set_up()`, `rules.set_up()`,
    `is_ready = set_up()`. None if it is of no module that is used.

    Args:
        statement: a statement of the module.
        module: the module.
        modules: the author's modules that were read, by name.
        uses: returns whether a module is used.
    """
    found = _sets_up(statement.node, module.imported)
    alone = Setting(found) if found else None
    if not statement.is_main and (not found or is_own(found)):
        inside = _set_up_inside(statement, module, modules, uses)
        if inside and not (alone and inside.by_program):
            return inside
    return alone if alone and uses(alone.module) else None


def _set_up_inside(
    statement: Statement, module: Module, modules: dict[str, Module], uses: Callable[[str], bool]
) -> Setting | None:
    node = statement.node
    is_block = isinstance(node, _BLOCK | _LOOP)
    if not is_block and not _only_calls(node):
        return None
    called = _called(statement, module, modules)
    places = [*called, *([(statement, module)] if is_block else [])]
    settings = [Setting(name, functions=[place]) for place, home in places for name in _settings_in(place, home)]
    used = [each for each in settings if uses(each.module) and not (is_block and each.module in imports.OF_ALL_CODE)]
    if not used:
        return None
    packages = {each.name.partition(".")[0] for each in used}
    names = [(effects(each, home)[1] | each.names.deferred, home) for each, home in ((statement, module), *called)]
    by_program = (
        any(isinstance(part, _LOOP) for place, _ in places for part in ast.walk(place.node))
        or (is_block and imports.has_import(node))
        or any(is_program(each, home, packages) for each, home in names)
    )
    of_packages = [each for each in used if imports.is_installed(each.name.partition(".")[0])]
    first = (of_packages or used)[0]
    return Setting(first.name, by_program, is_inside=True, functions=first.functions)


def _only_calls(node: ast.stmt) -> bool:
    """Whether this is a call, or gives a name the result of one without arguments. `x = f(y)` computes a value."""
    call = node.value if isinstance(node, ast.Expr | ast.Assign) else None
    return isinstance(call, ast.Call) and (isinstance(node, ast.Expr) or not (call.args or call.keywords))


def _sets_up(node: ast.AST, known: dict[str, str]) -> str | None:
    return (imports.sets_up(node, known) or imports.stores_in(node, known)) if isinstance(node, _SETTING) else None


def _settings_in(place: Statement, home: Module) -> list[str]:
    """What all parts of a statement set, as by `_sets_up`."""
    if place not in home.settings:
        found = (_sets_up(part, home.imported) for part in ast.walk(place.node))
        home.settings[place] = [name for name in found if name]
    return home.settings[place]


def _called(statement: Statement, module: Module, modules: dict[str, Module]) -> list[tuple[Statement, Module]]:
    """The author's functions that a statement calls, also through others, each with its module."""
    found: dict[Statement, Module] = {}
    todo = [(statement, module)]
    while todo:
        each, home = todo.pop()
        if each not in home.called:
            home.called[each] = [part for call in each.calls for part in _definitions_of(call.func, home, modules)]
        for function, of in home.called[each]:
            if function not in found:
                found[function] = of
                todo.append((function, of))
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
