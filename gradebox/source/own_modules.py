"""Finds the author's own modules that a text imports, and what it uses of them."""

import ast
import functools
import importlib
import importlib.util
import linecache
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType

from gradebox.source import imports
from gradebox.source.names import changed_expressions

_MISSING = object()
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_OTHERS = {"gradebox", "adaptive_harmony", "__main__"}


@dataclass
class Use:
    """What is used of a module.

    Attributes:
        names: the names that are read; with `whole`, all that the module has.
        changed: those of them that functions of the user change.
        whole: whether the module is used as a value, as in `getattr(rules, name)`.
    """

    names: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    whole: bool = False

    def __or__(self, other: "Use") -> "Use":
        return Use(self.names | other.names, self.changed | other.changed, self.whole or other.whole)


def find(name: str) -> ModuleType | None:
    """The author's module with this full name. It is imported if that has not been done yet.

    None if it is of the standard library or an installed package, if its import fails, or if it has no Python source.
    """
    if not is_own(name):
        return None
    try:
        module = sys.modules.get(name) or importlib.import_module(name)
    except (Exception, SystemExit):  # noqa: BLE001  # what the author's module raises; the upload says that it is missing
        return None
    return module if _has_source(module) else None


def imported() -> list[ModuleType]:
    """The author's modules that are imported."""
    own = {top for top in {name.partition(".")[0] for name in sys.modules} if is_own(top)}
    modules = [each for name, each in list(sys.modules.items()) if name.partition(".")[0] in own]
    return [
        each
        for each in modules
        if isinstance(each, ModuleType) and getattr(each, "__file__", None) and _has_source(each)
    ]


def is_own(name: str) -> bool:
    """Whether a module with this full name would be one of the author."""
    top = name.partition(".")[0]
    if not top or top in sys.stdlib_module_names or top in _OTHERS or imports.is_installed(top):
        return False
    try:
        return top in sys.modules or importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return False


def packages_of(name: str) -> list[str]:
    """The packages that a module is in, the outermost first."""
    parts = name.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts))]


def resolved(node: ast.ImportFrom, package: str | None) -> str:
    """The full name of the module of `from … import`; empty if it is relative and there is no package."""
    name = "." * node.level + (node.module or "")
    return absolute(name, package)


def absolute(name: str, package: str | None) -> str:
    """The full name of a module, which may be relative to a package; empty if there is no such package."""
    try:
        return importlib.util.resolve_name(name, package)
    except ImportError:
        return ""


def uses(nodes: Iterable[ast.AST], package: str | None, refused: Collection[str] = ()) -> dict[str, Use]:
    """What these statements use of the author's modules, by the full names of the modules.

    Args:
        nodes: the statements. Imports in them bind only what is used.
        package: the package that relative imports start from.
        refused: modules that are left out.
    """
    found = _Uses(package, refused)
    trees = list(nodes)
    for tree in trees:
        for node in _imports_in(tree):
            found.add_import(node, in_branch=isinstance(tree, ast.If))
        found.add_called_import(tree)
    for tree in trees:
        for name, attributes, is_changed in _chains(tree):
            found.add_chain(name, attributes, is_changed)
    return found.modules


def sets_up_modules(name: str) -> bool:
    """Whether the author's module of this name has statements such as `getcontext().prec = 50`."""
    return _sets_up(text_of(name))


def text_of(name: str) -> str:
    """The text of the author's module with this name; empty if it has none."""
    return "".join(linecache.getlines(getattr(find(name), "__file__", None) or ""))


@functools.lru_cache
def _sets_up(source: str) -> bool:
    try:
        statements = ast.parse(source).body
    except SyntaxError:  # changed on disk
        return False
    known = imports.full_names(statements)
    calls = [each.value.func for each in statements if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call)]
    called = {each.id for each in calls if isinstance(each, ast.Name)}
    for each in statements:
        if isinstance(each, ast.FunctionDef) and each.name in called:
            statements += [part for part in ast.walk(each) if isinstance(part, ast.stmt) and part is not each]
    settings = (each for each in statements if isinstance(each, ast.Expr | ast.Assign | ast.AugAssign))
    return any(imports.sets_up(each, known) or imports.stores_in(each, known) for each in settings)


class _Uses:
    def __init__(self, package: str | None, refused: Collection[str]) -> None:
        self.modules: dict[str, Use] = {}
        self._package = package
        self._refused = refused
        self._bound: dict[str, str] = {}  # names that are modules
        self._from: dict[str, tuple[str, str]] = {}  # names that are imported from a module

    def add_import(self, node: imports.Import, in_branch: bool) -> None:
        """Adds what is imported; of a branch, only what is imported already, because it may not have run."""
        for alias in node.names:
            name = resolved(node, self._package) if isinstance(node, ast.ImportFrom) else alias.name
            if in_branch and name not in sys.modules:
                continue
            if isinstance(node, ast.ImportFrom):
                self._add_name(resolved(node, self._package), alias)
            elif self._add_module(alias.name):
                top = alias.name.partition(".")[0]
                self._bound[alias.asname or top] = alias.name if alias.asname else top

    def add_called_import(self, tree: ast.AST) -> None:
        """Adds what `importlib.import_module("rules")` imports."""
        for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call) and len(each.args) == 1):
            name = call.args[0]
            if not isinstance(name, ast.Constant) or not ast.unparse(call.func).endswith("import_module"):
                continue
            if isinstance(name.value, str) and self._add_module(name.value):
                to = tree.targets[0] if isinstance(tree, ast.Assign) and tree.value is call else None
                if isinstance(to, ast.Name):
                    self._bound[to.id] = name.value
                else:
                    self.modules[name.value].whole = True

    def _add_module(self, name: str) -> bool:
        if name in self._refused or find(name) is None:
            return False
        for each in (*packages_of(name), name):
            self.modules.setdefault(each, Use())
        return True

    def _add_name(self, base: str, alias: ast.alias) -> None:
        if not self._add_module(base):
            return
        if alias.name == "*":
            self.modules[base].whole = True
            return
        bound = alias.asname or alias.name
        value = self._value(base, alias.name)
        inner = f"{base}.{alias.name}" if value is _MISSING else _module_name(value)
        if inner and self._add_module(inner):
            self._bound[bound] = inner
            if inner == f"{base}.{alias.name}":
                return
        self.modules[base].names.add(alias.name)
        self._from[bound] = base, alias.name

    def _value(self, module: str, name: str) -> object:
        """The value of a name of a module. If the `__getattr__` of the module finds it, its own module is added."""
        found = find(module)
        if name in vars(found):
            return vars(found)[name]
        try:
            value = getattr(found, name, _MISSING)
        except Exception:  # noqa: BLE001  # what the author's `__getattr__` raises
            return _MISSING
        if isinstance(value, FunctionType | type) and self._add_module(value.__module__):
            self.modules[value.__module__].names.add(value.__name__)
        return value

    def add_chain(self, name: str, attributes: list[str], is_changed: bool) -> None:
        """Adds the use of `name.attribute.…`."""
        if is_changed and name in self._from:
            base, original = self._from[name]
            self.modules[base].changed.add(original)
        module = self._bound.get(name)
        if module is None:
            return
        for attribute in attributes:
            inner = _module_name(self._value(module, attribute))
            self.modules[module].names.add(attribute)
            if not (inner and self._add_module(inner)):
                if is_changed:
                    self.modules[module].changed.add(attribute)
                self.modules[module].whole |= attribute == "__dict__"
                return
            module = inner
        self.modules[module].whole = True


def _module_name(value: object) -> str:
    return value.__name__ if isinstance(value, ModuleType) else ""


def _imports_in(tree: ast.AST) -> Iterator[imports.Import]:
    """All imports in a tree, also in functions, without those for type checkers."""
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and imports.is_for_types(node):
            todo += node.orelse
        else:
            todo += ast.iter_child_nodes(node)


def _chains(tree: ast.AST) -> Iterator[tuple[str, list[str], bool]]:
    """Each `a.b.c` and each name that is read, as its first name, the others, and whether its value is changed.

    Without those whose first name is a variable of a function.
    """
    changed = {id(part) for node in ast.walk(tree) for part in changed_expressions(node)}
    todo: list[tuple[ast.AST, frozenset[str]]] = [(tree, frozenset())]
    while todo:
        node, local = todo.pop()
        attributes: list[str] = []
        is_changed = id(node) in changed
        part = node
        while isinstance(part, ast.Attribute):
            attributes.insert(0, part.attr)
            part = part.value
            is_changed |= id(part) in changed
        if isinstance(part, ast.Name):
            if part.id not in local and (attributes or isinstance(part.ctx, ast.Load)):
                yield part.id, attributes, is_changed
        elif isinstance(part, _FUNCTIONS):
            inside = local | _variables(part)
            body = part.body if isinstance(part.body, list) else [part.body]
            todo += [(each, inside) for each in body]
            todo += [(each, local) for each in ast.iter_child_nodes(part) if each not in body]
        else:
            todo += [(each, local) for each in ast.iter_child_nodes(part)]


def _variables(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> frozenset[str]:
    """The parameters and variables of a function itself, without those of functions in it."""
    given = function.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    bound = {each.arg for each in arguments if each}
    declared: set[str] = set()
    todo: list[ast.AST] = [*function.body] if isinstance(function.body, list) else [function.body]
    while todo:
        part = todo.pop()
        if isinstance(part, ast.Global):
            declared.update(part.names)
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            bound.add(part.id)
        elif not isinstance(part, _SCOPES):
            todo += ast.iter_child_nodes(part)
    return frozenset(bound - declared)


def _has_source(module: ModuleType) -> bool:
    path = getattr(module, "__file__", None)
    if path is None:
        return hasattr(module, "__path__")  # a folder without `__init__.py`
    return Path(path).suffix == ".py" and Path(path).is_file()
