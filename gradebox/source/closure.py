"""A closure: the statements of a module that a grader needs, and what was found about them."""

from __future__ import annotations

import ast
import dataclasses
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, ModuleType

from gradebox.snapshot.module_settings import SETTINGS
from gradebox.source import imports
from gradebox.source.literal import literal, written
from gradebox.source.live import home_of, mocked, replaced
from gradebox.source.module import Module, Statement
from gradebox.source.names import computes_when_defined, first_line
from gradebox.source.own_modules import Use, absolute, find, is_own, packages_of, resolved, text_of, uses
from gradebox.source.refusals import Need
from gradebox.source.settings import Setting

_MISSING = object()


@dataclass
class CopyRules:
    """What holds for all modules of a copy.

    Attributes:
        allowed: decides which imports may be uploaded although the sandbox's standard library lacks them.
        main: the name of the grader's module.
        widely: take all statements that run a function and use a name whose value differs.
        again: of a name that was bound again later, take also the value which the functions had that ran before.
        known: the author's modules that were read, by name.
        refused: the author's modules that cannot be uploaded.
        used: the packages and modules, by their first names, that were found to be imported by the copy.
    """

    allowed: imports.Allowed
    main: str
    widely: bool
    known: dict[str, Module]
    again: bool
    refused: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)


@dataclass
class Closure:
    """The statements of a module that a grader needs, and the constants that are uploaded as their current values.

    Attributes:
        module: the grader's module, or another one of the author.
        grader: the function that is uploaded; None in another module.
        rules: what holds for all modules of the copy.
        differing: names whose values depend on functions that the module ran; false if the grader itself may have
            changed them. The statements that ran them are taken, if all they need can be uploaded.
        taken: the statements, with the names for which they are needed.
        values: assignments of values, each with the statement that it replaces, or None.
        calls_itself: whether the uploaded source uses the grader by name.
        filled_by: the functions and classes of other modules of the author that values here contain, such as a
            registry, by the names of these modules.
        filled_by_main: those of the grader's module.
        submodules: those of this package that another module has imported.
        set_up: the modules that taken statements configure.
        left_settings: what statements set in packages that the copy imports, and are not taken, by their places.
        unbound: names that are needed, and that no statement binds.
        done: the names that were followed, each with the index of the statement that reads it at once, or None.
        searched: the names whose values were searched for functions and classes.
    """

    module: Module
    grader: FunctionType | None
    rules: CopyRules
    differing: Mapping[str, bool]
    taken: dict[Statement, set[str]] = field(default_factory=dict)
    values: dict[str, tuple[Statement | None, str]] = field(default_factory=dict)
    calls_itself: bool = False
    filled_by: dict[str, set[str]] = field(default_factory=dict)
    filled_by_main: set[str] = field(default_factory=set)
    submodules: set[str] = field(default_factory=set)
    set_up: set[str] = field(default_factory=set)
    left_settings: dict[str, Setting] = field(default_factory=dict)
    unbound: dict[str, Need] = field(default_factory=dict)
    done: set[tuple[str, int | None]] = field(default_factory=set)
    searched: set[str] = field(default_factory=set)

    def empty(self) -> Closure:
        """One of the same module that has nothing yet."""
        return Closure(self.module, self.grader, self.rules, self.differing)

    def copy(self) -> Closure:
        """An independent copy."""
        return dataclasses.replace(
            self,
            taken={statement: names.copy() for statement, names in self.taken.items()},
            values=self.values.copy(),
            filled_by={name: filling.copy() for name, filling in self.filled_by.items()},
            filled_by_main=self.filled_by_main.copy(),
            submodules=self.submodules.copy(),
            set_up=self.set_up.copy(),
            unbound=self.unbound.copy(),
            done=self.done.copy(),
            searched=self.searched.copy(),
        )

    @property
    def user(self) -> str:
        """The name of what needs the statements, for error messages."""
        return self.grader.__name__ if self.grader else str(self.module.globals["__name__"])

    def allowed(self, name: str) -> bool:
        """Whether an import of this module may be uploaded; the name may be relative to the package."""
        full = absolute(name, self.module.package)
        return self.rules.allowed(full) or (full not in self.rules.refused and find(full) is not None)

    def refused(self, name: str) -> bool:
        """Whether this is a module of the author that cannot be uploaded; the name may be relative to the package."""
        return absolute(name, self.module.package) in self.rules.refused

    def shown(self, statement: Statement, names: set[str]) -> ast.stmt:
        """The statement as it is uploaded: an import of these names alone."""
        node = statement.node
        if not isinstance(node, ast.Import | ast.ImportFrom):
            return node
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            if find(resolved(node, self.module.package)) is None:
                return node
            aliases = [ast.alias(name) for name in sorted(names)]
            return ast.ImportFrom(node.module, aliases, node.level, lineno=node.lineno, col_offset=node.col_offset)
        return node if statement.names.binds <= names else imports.only(node, names)

    def uses(self) -> dict[str, Use]:
        """What the taken statements, and the grader, use of the author's other modules."""
        found = uses(self._nodes(), self.module.package, self.rules.refused)
        for name, filling in self.filled_by.items():
            for package in packages_of(name):
                found.setdefault(package, Use())
            found[name] = found.get(name, Use()) | Use(set(filling))
        return found

    def _nodes(self) -> list[ast.stmt]:
        """The taken statements as they are uploaded, and the grader."""
        nodes = [self.shown(statement, names) for statement, names in self.taken.items()]
        return [*nodes, self.module.definition(self.grader.__code__, self.user)[1]] if self.grader else nodes

    def imported_last(self) -> list[str]:
        """The modules that this one has to import after its statements: those that fill its values, and submodules.

        They are in the order in which they were imported here.
        """
        own = str(self.module.globals["__name__"])
        names = {*self.filled_by, *(f"{own}.{name}" for name in self.submodules)}
        return [name for name in list(sys.modules) if name in names]

    def computes(self) -> bool:
        """Whether a value may differ: one that is computed, or imported from another module of the author."""
        return any(self._computes(statement) for statement in self.taken)

    def _computes(self, statement: Statement) -> bool:
        node = statement.node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            code = getattr(self.module.globals.get(node.name), "__code__", None)
            return computes_when_defined(node) or getattr(code, "co_firstlineno", None) != first_line(node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            return bool(uses([node], self.module.package, self.rules.refused))
        return isinstance(node, ast.ClassDef) or any(
            name not in self.values and not self._is_written(name, node) for name in self.taken[statement]
        )

    def _is_written(self, name: str, node: ast.stmt) -> bool:
        value = literal(self.module.globals.get(name, _MISSING))
        return value is not None and value == written(node, name)

    def compared_names(self) -> set[str]:
        """The names at module level whose values have to be equal here and in the copy."""
        names = {name for name, before in self.done if before is None and name in self.module.binders}
        binders = self.module.binders
        classes = (each for each in self.taken if isinstance(each.node, ast.ClassDef))
        names |= {name for each in classes for name in each.names.binds if binders[name][-1] is each}
        names &= self.module.globals.keys()
        return {*names, *self.values, *([self.user] if self.grader else [])}

    def compared_settings(self) -> set[str]:
        """The modules of the standard library whose settings have to be equal."""
        # Other programs set what holds for all code, too, as a debugger or pytest does, and so may the grader.
        taken = {*self.taken, *([self.module.definition(self.grader.__code__, self.user)[0]] if self.grader else [])}
        left = [each.source for each in self.module.statements if each not in taken]
        if self.grader:
            homes = {home_of(value) for value in self.module.globals.values()} - {self.module.globals["__name__"]}
            left += [text_of(name) for name in homes if name in sys.modules and is_own(name)]
        calls = [name.partition(".") for name in imports.COMPARED_OF_ALL_CODE]
        used = self.imported_names()
        text = "\n".join(left)
        parts = {path for name in (*used, "builtins") for path in replaced(name, self.module, text)}
        used -= {*imports.OF_ALL_CODE}
        used |= {module for module, _, name in calls if name in text}
        return (used & SETTINGS.keys()) - self.set_up | parts

    def mocks(self) -> list[str]:
        """The full names of what is a mock here in the modules that are imported, and no taken statement sets."""
        text = "\n".join(each.source for each in self.taken)
        found = {name for module in (*self.imported_names(), "builtins") for name in mocked(module)}
        return sorted(name for name in found if f"{name} =" not in text)

    def left_for_texts(self) -> list[str]:
        """The modules, functions and classes that stay here although a text which `eval` runs may use them: it is run
        without a namespace of its own.
        """
        parts = [part for node in self._nodes() for part in ast.walk(node) if isinstance(part, ast.Call)]
        calls = (each for each in parts if isinstance(each.func, ast.Name) and each.func.id in ("eval", "exec"))
        if not any(len(each.args) == 1 and not each.keywords for each in calls):
            return []
        taken = {*self.values, self.user}
        for each, names in self.taken.items():
            taken |= names if isinstance(each.node, ast.Import | ast.ImportFrom) else each.names.binds
        kinds = (ModuleType, FunctionType, BuiltinFunctionType, type)
        live = self.module.globals
        return [name for name in self.module.binders if name not in taken and isinstance(live.get(name), kinds)]

    def imported_names(self) -> set[str]:
        """The names of the modules that the taken statements, and the grader, import, also in functions."""
        nodes = [part for node in self._nodes() for part in ast.walk(node)]
        names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        return names | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
