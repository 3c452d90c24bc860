"""Finds what a grader changes while it runs. Its copy starts with the values that the text gives these."""

import ast
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gradebox.source import imports
from gradebox.source.live import VALUES, is_of_another
from gradebox.source.module import Module, Statement
from gradebox.source.names import ARGUMENT_CHANGERS, Names, changed_expressions, is_definition, root
from gradebox.source.own_modules import is_own

_CONSTRUCTORS = {"__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__"}
# Functions that reach outside of the process, or whose effect no reader of the text knows.
_PROGRAM = {"open", "print", "input", "exec", "eval", "compile", "breakpoint", "exit", "quit", "__import__"}
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


def statements_changing(name: str, module: Module, grader: str, *, widely: bool, package: str) -> Iterator[Statement]:
    """As `advancing`, without the statements below `if __name__ == "__main__":`, and without those that use more than
    values, and `package`: a program that trains, uploads or writes files is not a part of the grader.
    """
    for statement in advancing(name, module, grader, widely=widely):
        if not statement.is_main and not is_program(effects(statement, module)[1], module, {package}):
            yield statement


def advancing(name: str, module: Module, grader: str, *, widely: bool) -> Iterator[Statement]:
    """The statements that change a value by the functions of the module that they run: `fill()`, `@rule(2.0)`. With
    `widely`, all that run a function and use the value, as `fill(RULES)` does. Without those that run the grader, which
    only use the value.
    """
    for statement in module.statements:
        if _calls(statement.node):
            changed, used = effects(statement, module)
            if name in (changed | used if widely else changed) and grader not in used:
                yield statement


def reads(variable: str, nodes: Iterable[ast.AST]) -> bool:
    """Whether these use a name or attribute otherwise than to change it, as `hits += 1` does. An empty one is used."""
    unread = {id(part) for node in nodes for each in _changes_alone(node, variable) for part in ast.walk(each)}
    parts = (part for node in nodes for part in ast.walk(node))
    return not variable or any(_used_name(part) == variable and id(part) not in unread for part in parts)


def _changes_alone(node: ast.AST, variable: str) -> Iterator[ast.AST]:
    """The parts that show or change the variable: `run.hits` as a statement, `hits += 1`, `mean = 0.9 * mean + new`."""
    for part in ast.walk(node):
        if isinstance(part, ast.AugAssign):
            yield part.target
        elif isinstance(part, ast.Assign):
            yield from part.targets
            if variable in map(_used_name, part.targets):
                yield part.value
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Attribute):
        yield node


def is_program(used: set[str], module: Module, packages: Collection[str]) -> bool:
    """Whether what uses these names does more than compute, or use the packages with these first names."""
    others = {module.imported[each] for each in used & module.imported.keys()}
    others = {each for each in others if each.partition(".")[0] not in packages}
    return bool(used & _PROGRAM) or not all(imports.only_computes(each) or is_own(each) for each in others)


def _calls(node: ast.stmt) -> bool:
    """Whether this runs functions, also those of an iterator."""
    if is_definition(node):
        return bool(node.decorator_list) or (isinstance(node, ast.ClassDef) and bool(node.bases or node.keywords))
    return any(isinstance(part, ast.Call | ast.For | ast.comprehension | ast.Starred) for part in ast.walk(node))


def effects(statement: Statement, module: Module) -> tuple[set[str], set[str]]:
    """The names that the functions change which a statement runs, and all names that it uses."""
    changed = _objects_used(statement, module)
    todo, used = set(statement.names.eager), set[str]()
    while todo:
        name = todo.pop()
        used.add(name)
        for binder in module.binders.get(name, []):
            if binder is statement:
                continue
            names = binder.names
            changed |= names.rebinds | names.mutates | names.commands
            todo |= (names.eager | names.deferred) - used
    return changed, used


def _objects_used(statement: Statement, module: Module) -> set[str]:
    """The names of objects of the module's classes whose methods a statement calls."""
    methods = [call.func for call in statement.calls]
    names = {name for method in methods if isinstance(method, ast.Attribute) and (name := root(method))}
    own = module.globals.get("__name__")
    objects = {name: module.globals.get(name) for name in names}
    return {name for name, each in objects.items() if type(each).__module__ == own or is_of_another(type(each), module)}


class _Reached:
    """A function that the grader runs, or a part of one."""

    def __init__(self, node: ast.AST) -> None:
        self.node = node
        self.parts = list(ast.walk(node))

    @functools.cached_property
    def changed_in_place(self) -> set[str]:
        return set(_changed_in_place(self.node, self.parts))


def changed_parts(
    start: Iterable[ast.AST], definitions: Sequence[Iterable[ast.stmt]]
) -> tuple[list[set[str]], set[str]]:
    """What functions change in place, also by functions and methods of definitions: the names, and the attributes, as
    `owner.attribute`. The owner is a name at module level, for `self` its class, and empty if it is not known.

    A method counts if its name is used as an attribute, a constructor if that of its class is used. An argument counts
    if the function changes its parameter.

    Args:
        start: the functions, which are in the first module.
        definitions: those of each module, for which the names are returned.
    """
    functions: dict[str, list[ast.AST]] = {}
    places: dict[int, int] = {}
    for n, of_module in enumerate(definitions):
        for name, nodes in _functions(of_module).items():
            functions.setdefault(name, []).extend(nodes)
            places |= {id(node): n for node in nodes}
    classes = _classes(each for of_module in definitions for each in of_module)
    reached = _reached(start, functions)
    by_name: dict[str, list[_Reached]] = {}
    for each in reached:
        if isinstance(each.node, Function):
            by_name.setdefault(each.node.name, []).append(each)
    names, attributes = [set[str]() for _ in definitions], set[str]()
    for each in reached:
        for part in _changed(each, by_name, classes.get(id(each.node), "")):
            if "." in part:
                attributes.add(part)
            else:
                names[places.get(id(each.node), 0)].add(part)
    return names, attributes


def _classes(definitions: Iterable[ast.stmt]) -> dict[int, str]:
    """The names of the classes in which functions are defined, by the ids of the functions."""
    parts = (part for definition in definitions for part in ast.walk(definition))
    classes = [part for part in parts if isinstance(part, ast.ClassDef)]
    return {id(each): part.name for part in classes for each in ast.walk(part) if isinstance(each, Function)}


def changed_in(live: Mapping[str, Any], changed: Iterable[tuple[Mapping[str, Any], set[str]]]) -> set[str]:
    """The names of a module that are changed: by its own functions, or as the same object by those of others.

    Args:
        live: the values of its names.
        changed: those of each module, with the names that its functions change.
    """
    found, objects = set[str](), set[int]()
    for values, names in changed:
        if values is live:
            found |= names
        objects |= {id(values[name]) for name in names if name in values and not isinstance(values[name], VALUES)}
    return found | {name for name, value in live.items() if id(value) in objects}


def _reached(start: Iterable[ast.AST], functions: dict[str, list[ast.AST]]) -> list[_Reached]:
    """The functions that run. Takes them out of `functions`."""
    todo = list(start)
    reached: list[_Reached] = []
    for name in list(functions):
        if name.startswith("__"):
            todo += functions.pop(name)
    while todo:
        reached.append(_Reached(todo.pop()))
        parts = reached[-1].parts
        owners = {id(part.value) for part in parts if isinstance(part, ast.Attribute)}
        for part in parts:
            if id(part) not in owners:  # `Rule.count` calls no constructor
                todo += functions.pop(_used_name(part), [])
    return reached


def _functions(definitions: Iterable[ast.stmt]) -> dict[str, list[ast.AST]]:
    functions: dict[str, list[ast.AST]] = {}
    for definition in definitions:
        for part in ast.walk(definition):
            if isinstance(part, ast.ClassDef):
                functions.setdefault(part.name, []).extend(
                    node for node in part.body if isinstance(node, Function) and node.name in _CONSTRUCTORS
                )
            elif isinstance(part, Function) and part.name not in _CONSTRUCTORS:
                functions.setdefault(part.name, []).append(part)
    return functions


def _used_name(part: ast.AST) -> str:
    if isinstance(part, ast.Name):
        return part.id
    return part.attr if isinstance(part, ast.Attribute) else ""


def _changed(reached: _Reached, by_name: dict[str, list[_Reached]], of_class: str) -> Iterator[str]:
    """What a function changes: names of the module, and attributes as `owner.attribute`."""
    local = _local_names(reached.parts)
    for part in reached.changed_in_place - local:
        yield _with_owner(part, local, of_class)
    for part in _changed_by_parts(reached, by_name):
        yield _with_owner(part, local, of_class)


def _with_owner(part: str, local: set[str], of_class: str) -> str:
    """The same, with the class for `self`, and without the name of another variable of the function."""
    owner, dot, attribute = part.rpartition(".")
    if owner not in local:
        return part
    return dot + attribute if owner not in ("self", "cls") else f"{of_class}.{attribute}"


def _changed_by_parts(reached: _Reached, by_name: dict[str, list[_Reached]]) -> Iterator[str]:
    changed = reached.changed_in_place
    for part in reached.parts:
        if isinstance(part, ast.Global):
            yield from part.names
        # `kept = self.kept` and then `kept[key] = value`
        elif isinstance(part, ast.Assign) and any(isinstance(to, ast.Name) and to.id in changed for to in part.targets):
            yield _container(part.value)
        # `for kept in (A, B): kept.append(text)`
        elif isinstance(part, ast.For) and isinstance(part.target, ast.Name) and part.target.id in changed:
            if isinstance(part.iter, ast.Tuple | ast.List):
                yield from map(_container, part.iter.elts)
        elif isinstance(part, ast.Call):
            yield from _changed_arguments(part, by_name)


def _local_names(parts: list[ast.AST]) -> set[str]:
    stored = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    declared = {name for part in parts if isinstance(part, ast.Global) for name in part.names}
    inner = {part.name for part in parts[1:] if isinstance(part, Function)}
    return (stored | inner | {part.arg for part in parts if isinstance(part, ast.arg)}) - declared


def _changed_in_place(node: ast.AST, parts: list[ast.AST]) -> Iterator[str]:
    is_constructor = isinstance(node, Function) and node.name in _CONSTRUCTORS
    new = _new_objects(parts)
    for part in parts:
        for changed in changed_expressions(part):
            is_set = changed is part  # `run.count = 1`
            is_of_new = isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id in new
            if not (is_set and (is_of_new or (is_constructor and root(changed) == "self"))):
                yield _container(changed)


def _new_objects(parts: list[ast.AST]) -> set[str]:
    """The names that hold only objects which the function has made, such as `run` of `run = Run()`."""
    new, others = set[str](), set[str]()
    for part in parts:
        if isinstance(part, ast.Assign) and isinstance(part.value, ast.Call):
            made = new if _used_name(part.value.func)[:1].isupper() else others
            made.update(to.id for to in part.targets if isinstance(to, ast.Name))
        elif isinstance(part, ast.Assign | ast.AnnAssign | ast.For | ast.NamedExpr | ast.withitem):
            others.update(
                name.id for name in ast.walk(part) if isinstance(name, ast.Name) and not isinstance(name.ctx, ast.Load)
            )
        elif isinstance(part, ast.Global):
            others.update(part.names)
    return new - others


def _container(node: ast.expr) -> str:
    """`self.kept` of `self.kept` and of `self.kept["a"]["b"]`, `.kept` of `a.b.kept`, `kept` of `kept["a"]`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return f"{node.value.id if isinstance(node.value, ast.Name) else ''}.{node.attr}"
    return _used_name(node)


def _changed_arguments(call: ast.Call, by_name: dict[str, list[_Reached]]) -> Iterator[str]:
    name = _used_name(call.func)
    if name in ARGUMENT_CHANGERS and call.args:
        yield _container(call.args[0])
    for each in by_name.get(name, []):
        if each.changed_in_place and isinstance(each.node, Function):
            changed, arguments = each.changed_in_place, each.node.args
            parameters = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
            if isinstance(call.func, ast.Attribute) and parameters[:1] in (["self"], ["cls"]):
                del parameters[0]
            yield from (_container(given) for to, given in zip(parameters, call.args, strict=False) if to in changed)
            yield from (_container(given.value) for given in call.keywords if given.arg in changed)
