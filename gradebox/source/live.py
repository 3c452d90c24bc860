"""Compares the current values of a module's names with its text."""

import ast
import gc
import inspect
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any

from gradebox.errors import SourceError
from gradebox.source import imports
from gradebox.source.module import Module, Statement
from gradebox.source.names import ARGUMENT_CHANGERS, is_definition, root
from gradebox.source.own_modules import is_own

_ATOMS = (type(None), bool, int, float, complex, str, bytes)
VALUES = (*_ATOMS, tuple, frozenset, FunctionType)
"""Types of which equal values may be one object, though nothing changes it."""
# The parents of a logger write files, which a sandbox need not.
_NO_PARTS = (*_ATOMS, FunctionType, ModuleType, type, logging.Logger)
_MOST_PARTS = 20_000
# Functions that change their first argument, if it is of their own package: `nx.add_path(GRAPH, …)`.
_OF_PACKAGE = re.compile(r"(add|fill|register|remove|set|update)[a-z_]*")
_RESTART = "start Python (or the kernel) again, or pass the source as a string"


def wraps(value: object, function: FunctionType) -> bool:
    """Whether `value` is the function, possibly wrapped by decorators."""
    for _ in range(100):
        if value is function or value is None:
            break
        value = inspect.getattr_static(value, "__wrapped__", None)  # runs no code of the author's classes
    return value is function


def changes(name: str, module: Module) -> list[Statement]:
    """Statements that change the value of `name` in place: `TABLE["a"] = 1`, `@register.add`, `fill(TABLE)`."""
    if name not in module.changes:
        module.changes[name] = list(_changes(name, module))
    return module.changes[name]


def _changes(name: str, module: Module) -> Iterator[Statement]:
    live = module.globals.get(name)
    if isinstance(live, ModuleType):
        # `string.punctuation += "…"`, `mpmath.mp.dps = 50`, `setattr(string, "punctuation", "…")`
        stores = (s for s in module.changing if name in s.names.stores or _fills(s, {name}, module))
        own_or_computing = is_own(live.__name__) or imports.only_computes(live.__name__)
        yield from (s for s in stores if own_or_computing or _stores_in_package(s.node, live))
        return
    names = {name}
    if not isinstance(live, VALUES):
        names |= {other for other, value in module.globals.items() if value is live}
        names |= _sharing(name, module)
    for statement in module.changing:
        called = names & statement.names.calls and (is_definition(statement.node) or not isinstance(live, FunctionType))
        if called or names & statement.names.stores or _fills(statement, names, module):
            yield statement


def _sharing(name: str, module: Module) -> set[str]:
    """The names of parts of an object, and of those that work on it: `child = SubElement(root, "a")`,
    `ruler = nlp.add_pipe("entity_ruler")`, `cursor = connection.cursor()`, `define = units.define`.
    """
    live = module.globals.get(name)
    changing = {other for each in module.changing for other in (*each.names.stores, *each.names.calls, _called(each))}
    others = {
        other: module.globals[other]
        for other in (changing & module.globals.keys()) - {name}
        if not isinstance(module.globals[other], _NO_PARTS)
    }
    if not others:
        return set()
    parts = _parts(live, module)
    return {
        other
        for other, value in others.items()
        if id(value) in parts or (_is_made_by(other, name, module) and _held(value) & {id(live), *parts})
    }


def holds(value: object, objects: set[int], module: Module) -> bool:
    """Whether a container or an object holds one of those with these ids."""
    return not isinstance(value, _NO_PARTS) and not objects.isdisjoint(_parts(value, module))


def _called(statement: Statement) -> str:
    """The name of the function that a statement does nothing but call; empty if there is none."""
    call = statement.node.value if isinstance(statement.node, ast.Expr) else None
    return call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""


def _parts(live: object, module: Module) -> set[int]:
    """The ids of the objects that this one holds, and of those in them."""
    if id(live) in module.parts:
        return module.parts[id(live)]
    found, todo = {id(module.globals)}, [live]
    while todo and len(found) < _MOST_PARTS:
        for part in gc.get_referents(todo.pop()):
            if id(part) not in found and not isinstance(part, _NO_PARTS):
                found.add(id(part))
                todo.append(part)
    module.parts[id(live)] = found
    return found


def _held(value: object) -> set[int]:
    """The ids of what an object holds: a cursor its connection, an element of lxml the document of all, a view of an
    array the array.
    """
    held = gc.get_referents(value)
    if type(value).__module__ == "numpy":
        held.append(getattr(value, "base", None))
    return {id(part) for part in held if not isinstance(part, (*_NO_PARTS, tuple, frozenset))}


def _is_made_by(other: str, name: str, module: Module) -> bool:
    """Whether a method of the object made the other one: `cursor = connection.cursor()`; or `SubElement`."""
    for statement in module.binders.get(other, [])[-1:]:
        if isinstance(statement.node, ast.Assign):
            return root(statement.node.value) == name or _fills(statement, {name}, module)
    return False


def _stores_in_package(node: ast.stmt, live: ModuleType) -> bool:
    """Whether this sets or deletes an attribute of an installed package without a call."""
    is_package = live.__name__.partition(".")[0] not in sys.stdlib_module_names
    calls = any(isinstance(part, ast.Call) for part in ast.walk(node))
    return is_package and isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Delete) and not calls


def _fills(statement: Statement, names: set[str], module: Module) -> bool:
    """Whether this is a call of `setattr`, of a method by a name of its own, or of a function that changes an argument
    in `names`.
    """
    if is_definition(statement.node):
        return False
    if any(_changes_argument(call, names, module) for call in statement.calls):
        return True
    call = statement.node.value if isinstance(statement.node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return False
    if call.func.id in names:
        return isinstance(module.globals.get(call.func.id), MethodType | BuiltinMethodType)
    for binder in module.binders.get(call.func.id, [])[-1:]:
        if isinstance(binder.node, ast.FunctionDef):
            given = zip(binder.node.args.args, call.args, strict=False)
            filled = {value.id for to, value in given if isinstance(value, ast.Name) and to.arg in binder.names.mutates}
            return bool(filled & names)
    return False


def _changes_argument(call: ast.Call, names: set[str], module: Module) -> bool:
    """Whether a function, as known by its name and package, changes its first argument, which is in `names`."""
    first = call.args[0] if call.args else None
    if not isinstance(first, ast.Name) or first.id not in names:
        return False
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if function in ("setattr", "delattr") or function in ARGUMENT_CHANGERS:
        return True
    owner = getattr(module.globals.get(root(call.func) or ""), "__name__", "")
    owner = getattr(module.globals.get(function), "__module__", None) or owner
    kind = type(module.globals.get(first.id)).__module__
    return bool(_OF_PACKAGE.fullmatch(function)) and owner.partition(".")[0] == kind.partition(".")[0]


def replaced(name: str, module: Module, text: str) -> Iterator[str]:
    """What is not the standard library's in one of its modules, as `json:JSONEncoder.default`: functions and classes of
    the author, and what this text sets, as by `string.punctuation = "!?"`.
    """
    is_standard = name.partition(".")[0] in sys.stdlib_module_names
    for path, each in _members(name) if is_standard else ():
        setting = f"{name.rpartition('.')[2]}.{path} "
        if _is_of_author(each, module) or f"{setting}=" in text or f"{setting}+=" in text:
            yield f"{name}:{path}"


def mocked(name: str) -> Iterator[str]:
    """The full names of what `unittest.mock.patch` replaced in the module of this name, also by `autospec`: then a
    function has the mock.
    """
    for path, each in _members(name):
        kinds = type(vars(each).get("mock") if isinstance(each, FunctionType) else each).__mro__
        if any(kind.__module__ == "unittest.mock" and kind.__name__ == "NonCallableMock" for kind in kinds):
            yield f"{name}.{path}"


def _members(name: str) -> Iterator[tuple[str, object]]:
    """What a module has, if it is imported, and what its classes have, as `JSONEncoder.default`."""
    for key, value in list(vars(sys.modules[name]).items()) if name in sys.modules else ():
        yield key, value
        if isinstance(value, type):
            yield from ((f"{key}.{inner}", each) for inner, each in list(vars(value).items()))


def _is_of_author(value: object, module: Module) -> bool:
    """Whether this is a function or class of the author."""
    is_here = isinstance(value, FunctionType) and value.__globals__ is module.globals
    return is_here or (isinstance(value, FunctionType | type) and is_own(value.__module__ or ""))


def home_of(value: object) -> str:
    """The name of the module that a value is, or in which it or its class was defined."""
    if isinstance(value, ModuleType):
        return value.__name__
    named = value if isinstance(value, FunctionType | MethodType | type) else type(value)
    return named.__module__ or ""


def is_of_another(value: object, module: Module) -> bool:
    """Whether this is another module of the author, or a function or class of one."""
    if isinstance(value, ModuleType):
        return vars(value) is not module.globals and is_own(value.__name__)
    name = value.__module__ if isinstance(value, FunctionType | type) else ""
    return bool(name) and name != module.globals.get("__name__") and is_own(name)


def names_changing(name: str, of: Module, module: Module) -> set[str]:
    """The names by which statements of a module change a value of another one: `CONFIG`, the other module, or a
    function of it that is called.
    """
    called = set().union(*(each.names.eager for each in module.statements if isinstance(each.node, ast.Expr)))
    found = set[str]()
    for other in names_leading_to(name, of, module.globals):
        found |= {other for _ in changes(other, module)}
        if isinstance(module.globals[other], FunctionType):
            found |= {other} & called
    return found


def names_leading_to(name: str, of: Module, live: Mapping[str, Any]) -> list[str]:
    """The names of a module that are a value of another one, this module itself, or a function of it."""
    value, home = of.globals.get(name), of.globals.get("__name__")
    is_shared = not isinstance(value, VALUES)
    return [
        other
        for other, each in live.items()
        if (is_shared and each is value)
        or (isinstance(each, FunctionType) and each.__module__ == home)
        or (isinstance(each, ModuleType) and each.__name__ == home)
    ]


def contents_of_others(value: object, module: Module, main: str) -> Iterator[FunctionType | type]:
    """The functions and classes in a container that are named in another module of the author; `main` is one."""
    for item in _contents(value, module, 4):
        if item.__module__ == main or is_of_another(item, module):
            named = vars(sys.modules[item.__module__]).get(item.__name__) if item.__module__ in sys.modules else None
            if named is item or (isinstance(item, FunctionType) and named is not None and wraps(named, item)):
                yield item


def own_contents(value: object, module: Module, grader: FunctionType | None) -> Iterator[FunctionType | type]:
    """The module's functions and classes in a container, or in containers and objects in it."""
    for item in _contents(value, module, 4):
        if _is_own(item, module) and not (grader and wraps(item, grader)):
            yield item


def _contents(value: object, module: Module, depth: int) -> Iterator[FunctionType | type]:
    """The functions and classes in a container or object, and the classes of the other objects in it.

    Attributes are searched only if `value` is a class of the module or an instance of one.
    """
    places: list[object] = []
    if getattr(value if isinstance(value, type) else type(value), "__module__", None) == module.globals.get("__name__"):
        places += getattr(value, "__dict__", {}).values()
    # A class of the author may iterate otherwise, even without an end.
    if isinstance(value, dict):
        places += dict.values(value)
    elif isinstance(value, list):
        places += list.__iter__(value)
    elif isinstance(value, tuple):
        places += tuple.__iter__(value)
    elif isinstance(value, set):
        places += set.__iter__(value)
    for item in places:
        kind = item if isinstance(item, FunctionType | type) else type(item)
        yield kind
        if depth and not isinstance(item, FunctionType | type):
            yield from _contents(item, module, depth - 1)


def _is_own(item: FunctionType | type, module: Module) -> bool:
    # A nested function is uploaded with the code that creates it.
    return item.__module__ == module.globals.get("__name__") and item.__name__ == item.__qualname__ != "<lambda>"


def check_definition(statement: Statement, name: str, module: Module) -> None:
    """Checks that an undecorated `def` or `class` is still the value of its name.

    Raises:
        SourceError: the text was changed, or the name was rebound while the program ran.
    """
    node = statement.node
    if not is_definition(node) or node.decorator_list or node.name != name or name not in module.globals:
        return
    if module.binders[name][-1] is not statement:
        return
    live = module.globals[name]
    if isinstance(node, ast.ClassDef) and isinstance(live, type):
        _check_methods(live, statement, module.filename)
    elif isinstance(live, FunctionType) and not isinstance(node, ast.ClassDef) and not _is_foreign(live, name, module):
        module.definition(live.__code__, name)
    else:
        is_function = isinstance(live, FunctionType)
        now = f"the function {live.__name__} of {live.__module__}" if is_function else type(live).__name__
        raise SourceError(
            f"{name} was a definition in {statement.where} and is now {now}: something replaced it while the program "
            f"ran. If the grader needs the replacement, let it use that by its own name. Else: {_RESTART}"
        )


def _is_foreign(live: FunctionType, name: str, module: Module) -> bool:
    """Whether this is a function with another name of another file or cell."""
    return live.__code__.co_name != name and live.__code__.co_filename != module.filename


def _check_methods(live: type, statement: Statement, filename: str) -> None:
    for method in vars(live).values():
        if not isinstance(method, FunctionType) or method.__code__.co_filename != filename:
            continue
        if not statement.text.defines(method.__code__) and "assert" not in statement.source:
            raise SourceError(
                f"{method.__qualname__} is not what {statement.where} says, which was changed on disk since it was "
                f"imported: {_RESTART}"
            )
