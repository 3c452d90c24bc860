"""Finds what a grader changes while it runs. Its copy starts with the values that the text gives these."""

import ast
from collections.abc import Iterable, Iterator

from gradebox.source.module import Module, Statement
from gradebox.source.names import MUTATORS, Names, is_definition, root

_CONSTRUCTORS = {"__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def changed_names(names: Names, module: Module) -> set[str]:
    """The names whose values change when a function with these `names`, or one that it calls, runs."""
    changed: set[str] = set()
    seen: set[str] = set()
    todo = [names]
    while todo:
        each = todo.pop()
        read = each.eager | each.deferred
        changed |= each.rebinds | (each.mutates & read)
        new = read - seen
        seen |= new
        todo.extend(statement.names for name in new for statement in module.binders.get(name, []))
    return changed


def statements_changing(name: str, module: Module, grader: str) -> Iterator[Statement]:
    """The statements that change a value by the functions of the module that they run: `fill()`, `@rule(2.0)`.

    Those that run the grader only use the value, and those below `if __name__ == "__main__":` are the program.
    """
    for statement in module.statements:
        if not statement.is_main and _calls(statement.node) and name in _changed_by(statement, module, grader):
            yield statement


def _calls(node: ast.stmt) -> bool:
    if is_definition(node):
        return bool(node.decorator_list) or (isinstance(node, ast.ClassDef) and bool(node.bases or node.keywords))
    return any(isinstance(part, ast.Call) for part in ast.walk(node))


def _changed_by(statement: Statement, module: Module, grader: str) -> set[str]:
    """What the functions that the statement names change, and those that they use; nothing if the grader is one."""
    changed = _objects_used(statement, module)
    todo, seen = set(statement.names.eager), set(statement.names.binds)
    while todo:
        name = todo.pop()
        if name == grader:
            return set()
        seen.add(name)
        for binder in module.binders.get(name, []):
            if is_definition(binder.node):
                names = binder.names
                changed |= names.rebinds | names.mutates | names.commands
                todo |= (names.eager | names.deferred) - seen
    return changed


def _objects_used(statement: Statement, module: Module) -> set[str]:
    """The names of objects of the module's classes whose methods a statement calls."""
    methods = [part.func for part in ast.walk(statement.node) if isinstance(part, ast.Call)]
    names = {name for method in methods if isinstance(method, ast.Attribute) and (name := root(method))}
    own = module.globals.get("__name__")
    return {name for name in names if type(module.globals.get(name)).__module__ == own}


def changed_parts(grader: ast.stmt, definitions: Iterable[ast.stmt]) -> set[str]:
    """The names and attributes that the grader changes in place, also by functions and methods of the definitions.

    A method counts if its name is used as an attribute. An argument counts if the function changes its parameter.
    """
    functions: dict[str, list[Function]] = {}
    for definition in definitions:
        for part in ast.walk(definition):
            if isinstance(part, Function) and part.name not in _CONSTRUCTORS:
                functions.setdefault(part.name, []).append(part)
    todo: list[ast.AST] = [grader]
    reached: list[ast.AST] = []
    for name in list(functions):
        if name.startswith("__"):
            todo += functions.pop(name)
    while todo:
        node = todo.pop()
        reached.append(node)
        for part in ast.walk(node):
            todo += functions.pop(_used_name(part), [])
    return {name for node in reached for name in _changed(node, reached)}


def _used_name(part: ast.AST) -> str:
    if isinstance(part, ast.Name):
        return part.id
    return part.attr if isinstance(part, ast.Attribute) else ""


def _changed(node: ast.AST, reached: list[ast.AST]) -> Iterator[str]:
    changed = set(_changed_in_place(node))
    yield from changed
    yield from (name for part in ast.walk(node) if isinstance(part, ast.Global) for name in part.names)
    for part in ast.walk(node):
        # `kept = self.kept` and then `kept[key] = value`
        if isinstance(part, ast.Assign) and any(isinstance(to, ast.Name) and to.id in changed for to in part.targets):
            yield _used_name(part.value)
        elif isinstance(part, ast.Call):
            yield from _changed_arguments(part, reached)


def _changed_in_place(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and not isinstance(part.ctx, ast.Load):
            yield part.attr
        elif isinstance(part, ast.Subscript) and not isinstance(part.ctx, ast.Load):
            yield _container(part.value)
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in MUTATORS:
            yield _container(part.func.value)


def _container(node: ast.expr) -> str:
    """`kept` of `self.kept` and of `self.kept["a"]["b"]`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return _used_name(node)


def _changed_arguments(call: ast.Call, reached: list[ast.AST]) -> Iterator[str]:
    name = _used_name(call.func)
    for node in reached:
        if isinstance(node, Function) and node.name == name:
            changed = set(_changed_in_place(node))
            parameters = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
            if isinstance(call.func, ast.Attribute) and parameters[:1] in (["self"], ["cls"]):
                del parameters[0]
            yield from (_used_name(given) for to, given in zip(parameters, call.args, strict=False) if to in changed)
