"""Finds the statements of a module that a grader needs."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, NamedTuple

from gradebox.errors import SourceError
from gradebox.snapshot.snapshot import SETTINGS
from gradebox.source import imports
from gradebox.source.literal import MAX_CHARS, is_constant, literal, written
from gradebox.source.live import (
    VALUES,
    changes,
    check_definition,
    contents_of_others,
    is_of_another,
    names_changing,
    names_leading_to,
    own_contents,
    wraps,
)
from gradebox.source.module import Module, Statement, read
from gradebox.source.names import Names, first_line, is_definition
from gradebox.source.own_modules import (
    Use,
    absolute,
    find,
    imported,
    is_own,
    packages_of,
    resolved,
    sets_up_modules,
    uses,
)
from gradebox.source.refusals import (
    Need,
    refuse_command_line,
    refuse_environment,
    refuse_imports,
    refuse_module_name,
    refuse_own_module,
    refuse_secret,
)
from gradebox.source.state import changed_in, changed_names, changed_parts, set_up_by, statements_changing

_MISSING = object()
_MOST_IMPORTS = 20  # through which a value came


class Reach(NamedTuple):
    """What a grader runs: the functions where it starts, and the other modules, each as its values and definitions."""

    start: Sequence[ast.AST]
    others: Sequence[tuple[Mapping[str, Any], Sequence[ast.stmt]]] = ()


@dataclass
class CopyRules:
    """What holds for all modules of a copy.

    Attributes:
        allowed: decides which imports may be uploaded although the sandbox's standard library lacks them.
        main: the name of the grader's module.
        widely: take all statements that run a function and use a name whose value differs.
        known: the author's modules that were read, by name.
        refused: the author's modules that cannot be uploaded.
    """

    allowed: imports.Allowed
    main: str
    widely: bool
    known: dict[str, Module]
    refused: set[str] = field(default_factory=set)


class Closure:
    """The statements of a module that a grader needs, and the constants that are uploaded as their current values.

    Attributes:
        module: the grader's module, or another one of the author.
        grader: the function that is uploaded; None in another module.
        taken: the statements, with the names for which they are needed.
        values: assignments of values, each with the statement that it replaces, or None.
        calls_itself: whether the uploaded source uses the grader by name.
        state: names whose values the uploaded functions change. They start with the value in the text.
        filled_by: the functions and classes of other modules of the author that values here contain, such as a
            registry, by the names of these modules.
        filled_by_main: those of the grader's module.
    """

    def __init__(
        self, module: Module, grader: FunctionType | None, rules: CopyRules, differing: Mapping[str, bool]
    ) -> None:
        """Has nothing yet.

        Args:
            module: the module.
            grader: its function that is uploaded, if it has it.
            rules: what holds for all modules of the copy.
            differing: names whose values depend on functions that the module ran; false if the grader itself may have
                changed them. The statements that ran them are taken, if all they need can be uploaded.
        """
        self.module = module
        self.grader = grader
        self.taken: dict[Statement, set[str]] = {}
        self.values: dict[str, tuple[Statement | None, str]] = {}
        self.calls_itself = False
        self.filled_by: dict[str, set[str]] = {}
        self.filled_by_main: set[str] = set()
        self._rules = rules
        self._differing = differing
        self._set_up: set[str] = set()
        self.state: set[str] = set()
        self._unbound: dict[str, Need] = {}
        self._done: set[tuple[str, int | None]] = set()
        self._submodules: set[str] = set()

    @property
    def user(self) -> str:
        """The name of what needs the statements, for error messages."""
        return self.grader.__name__ if self.grader else str(self.module.globals["__name__"])

    def follow(self, names: Names, at: int, user: Reach, changed: Collection[str] = ()) -> None:
        """Takes everything that a statement with these names needs; `at` is its index.

        Args:
            names: the names.
            at: the index of the statement; of one in another module, the number of statements.
            user: what the grader runs outside of `taken`.
            changed: names that other modules change.

        Raises:
            SourceError: a part cannot be uploaded.
        """
        self.state = self._with_aliases(changed_names(names, self.module) | set(changed))
        while True:
            self._clear()
            self._follow(self._needs(names, self.user, at))
            self._follow_settings()
            self._follow_annotations(names)
            self._take_calls_of_others()
            changing = {name for name in self.values if self._changes_in_source(name)}
            changing |= self._changing(user) & self.values.keys()
            if not changing:
                break
            self.state |= self._with_aliases(changing)
        for need in self._unbound.values():
            self._bind_by_value(need)

    def _changing(self, user: Reach) -> set[str]:
        """The names that change when the grader runs."""
        own = (self.module.globals, [statement.node for statement in self.taken])
        modules = [own, *user.others] if self.grader else [*user.others, own]  # the grader is in the first
        names, _ = changed_parts(user.start, [definitions for _, definitions in modules])
        return changed_in(self.module.globals, zip((live for live, _ in modules), names, strict=True))

    def uses(self) -> dict[str, Use]:
        """What the taken statements, and the grader, use of the author's other modules."""
        nodes = [self.shown(statement, names) for statement, names in self.taken.items()]
        if self.grader:
            nodes.append(self.module.definition(self.grader.__code__, self.user)[1])
        found = uses(nodes, self.module.package, self._rules.refused)
        for name, filling in self.filled_by.items():
            for package in packages_of(name):
                found.setdefault(package, Use())
            found[name] = found.get(name, Use()) | Use(set(filling))
        return found

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

    def imported_last(self) -> list[str]:
        """The modules that this one has to import after its statements: those that fill its values, and submodules.

        They are in the order in which they were imported here.
        """
        own = str(self.module.globals["__name__"])
        names = {*self.filled_by, *(f"{own}.{name}" for name in self._submodules)}
        return [name for name in list(sys.modules) if name in names]

    def _clear(self) -> None:
        self.taken.clear()
        self.values.clear()
        self._unbound.clear()
        self._done.clear()
        self.filled_by.clear()
        self.filled_by_main.clear()
        self._submodules.clear()

    def allowed(self, name: str) -> bool:
        """Whether an import of this module may be uploaded; the name may be relative to the package."""
        full = absolute(name, self.module.package)
        return self._rules.allowed(full) or (full not in self._rules.refused and find(full) is not None)

    def _allowed_in(self, node: ast.stmt) -> imports.Allowed:
        """As `allowed`. In an `if`, modules that were not imported here stay behind: that branch did not run."""

        def allowed(name: str) -> bool:
            full = absolute(name, self.module.package)
            return (full not in sys.modules and is_own(full)) or self.allowed(name)

        return allowed if isinstance(node, ast.If) else self.allowed

    def refused(self, name: str) -> bool:
        """Whether this is a module of the author that cannot be uploaded; the name may be relative to the package."""
        return absolute(name, self.module.package) in self._rules.refused

    def _with_aliases(self, names: set[str]) -> set[str]:
        """These names, and those of the same objects."""
        live = self.module.globals
        same = {id(live[name]) for name in names if name in live and not isinstance(live[name], VALUES)}
        return names | {name for name in self.module.binders if id(live.get(name)) in same}

    def _changes_in_source(self, name: str) -> bool:
        """Whether a taken statement changes the value, or reads it before a later change. Then the text is uploaded."""
        return any(
            change in self.taken or any(name in s.names.eager and s.index < change.index for s in self.taken)
            for change in changes(name, self.module)
        )

    def _follow(self, needs: Iterable[Need]) -> None:
        todo = list(needs)
        while todo:
            need = todo.pop()
            if (need.name, need.before) not in self._done:
                self._done.add((need.name, need.before))
                todo.extend(self._take(need))

    def _needs(self, names: Names, user: str, at: int) -> Iterator[Need]:
        # `_follow` processes the last one first, so that an error names what is read first.
        yield from (Need(name, user) for name in sorted(names.deferred, reverse=True))
        yield from (Need(name, user, at) for name in sorted(names.eager, reverse=True))

    def _take(self, need: Need) -> Iterator[Need]:
        name = need.name
        if self.grader and name in ("grade", self.user) and wraps(self.module.globals.get(name), self.grader):
            self.calls_itself = True
            yield from self._take_changes(name, after=-1)
            return
        if self.grader and name == "grade" and (name in self.module.globals or name in self.module.binders):
            raise SourceError(
                f"{need.user} uses something else that is called `grade`, which is what {self.user} "
                "is called once it is uploaded: give the other one a different name"
            )
        if name == "__file__":
            raise SourceError(
                f"{need.user} uses __file__, and the sandbox holds no file of yours: "
                f"write what you read from files into the source, as a constant of at most {MAX_CHARS >> 10} KiB, or "
                "send it as the data of an environment"
            )
        binders = self._binders(name, need.before)
        if not binders:
            self._take_unbound(need)
        elif (value := self._value(name, binders)) is not None:
            refuse_environment(self._origin(binders[0], name), need)
            refuse_secret(value, need)
            self.values[name] = (binders[0], value)
        else:
            for statement in binders:
                yield from self._take_statement(statement, need)
            yield from self._take_changes(name, after=binders[0].index)
            self._take_calls(name, after=binders[0].index)

    def _origin(self, statement: Statement, name: str) -> Statement:
        """The statement of the author's modules by which an imported name has its value."""
        module = self.module
        for _ in range(_MOST_IMPORTS):
            node = statement.node
            own = find(resolved(node, module.package)) if isinstance(node, ast.ImportFrom) else None
            if own is None or not isinstance(node, ast.ImportFrom):
                break
            name = next((each.name for each in node.names if imports.bound_name(each, node) == name), name)
            module = read(own, self._rules.known)
            if name not in module.binders:
                break
            statement = module.binders[name][-1]
        return statement

    def _binders(self, name: str, before: int | None) -> list[Statement]:
        """The statements that give `name` its value: the last that rebinds it, and those that change it after that."""
        found = [s for s in self.module.binders.get(name, []) if before is None or s.index < before]
        starts = [n for n, statement in enumerate(found) if _binds_anew(statement, name)]
        return found[starts[-1] :] if starts else found

    def _value(self, name: str, binders: list[Statement]) -> str | None:
        """The current value of `name` as a literal, if it is a constant that the text does not already contain."""
        node = binders[0].node
        if name in self.state or name not in self.module.globals or is_definition(node):
            return None
        if len(binders) > 1 or binders != self._binders(name, None):
            return None
        if isinstance(node, ast.Import | ast.ImportFrom) and self._is_found(node, name):
            return None
        live = self.module.globals[name]
        if isinstance(live, bool | None) and isinstance(node, ast.Try) and imports.has_import(node):
            return None  # such as HAS_SYMPY: it is computed from the packages that are there
        value = literal(live)
        return None if value is None or value == written(node, name) else value

    def _is_found(self, node: imports.Import, name: str) -> bool:
        """Whether the import works in the sandbox, and gives the name its current value there.

        A constant of another module of the author needs no import: its value is enough.
        """
        if imports.is_missing(node, self.allowed, self.refused):
            return False
        own = find(resolved(node, self.module.package)) if isinstance(node, ast.ImportFrom) else None
        alias = next((each.name for each in node.names if imports.bound_name(each, node) == name), name)
        value = self.module.globals[name]
        return own is None or (getattr(own, alias, None) is value and not is_constant(value))

    def _take_statement(self, statement: Statement, need: Need) -> Iterator[Need]:
        first = statement not in self.taken
        self.taken.setdefault(statement, set()).add(need.name)
        node = statement.node
        if isinstance(node, ast.Import | ast.ImportFrom):
            node = imports.only(node, {need.name})
        user = need._replace(user=need.name) if is_definition(node) else need
        refuse_imports(node, user, statement.text.label, self._allowed_in(node), self.refused)
        if not first:
            return
        refuse_environment(statement, need)
        refuse_command_line(statement, need)
        refuse_own_module(node, user)
        if self.grader:
            refuse_module_name(node, user, self.module.globals["__name__"])
        check_definition(statement, need.name, self.module)
        yield from self._needs(statement.names, need.name, statement.index)
        yield from self._take_contents(need.name)

    def _take_changes(self, name: str, after: int) -> Iterator[Need]:
        for statement in changes(name, self.module):
            if statement.index > after and statement not in self.taken:
                yield from self._take_statement(statement, Need(name, name))

    def _take_calls(self, name: str, after: int, *, widely: bool = False) -> None:
        if name not in self._differing:
            return
        grader = self.user if self.grader else ""
        for statement in statements_changing(name, self.module, grader, widely=widely or self._rules.widely):
            # `results = [helper(one) for one in data]` probably only filled a cache of the helper.
            is_trial = isinstance(statement.node, ast.Assign | ast.AnnAssign) and not self._differing[name]
            if statement.index > after and statement not in self.taken and not is_trial:
                self._try(self._take_statement(statement, Need(name, name)))

    def _take_calls_of_others(self) -> None:
        """Takes the statements that ran functions of other modules if values of these differ: `rules.configure(5)`."""
        for name in self._differing:
            value = self.module.globals.get(name)
            if is_of_another(value, self.module):  # what a function of another module changes is not seen here
                self._take_calls(name, after=-1, widely=isinstance(value, FunctionType))

    def _take_contents(self, name: str) -> Iterator[Need]:
        """Takes the author's functions and classes in a container, such as one that a decorator filled."""
        if not self.grader:
            for item in contents_of_others(self.module.globals.get(name), self.module, self._rules.main):
                self._add_filling(item)
            if name in self._differing:
                self._add_changing(name)
        for item in own_contents(self.module.globals.get(name), self.module, self.grader):
            item_name = item.__name__
            if self.module.globals.get(item_name) is item:
                yield Need(item_name, name)
            elif isinstance(item, FunctionType) and not item.__closure__:  # else a function of the module made it
                statement, _ = self.module.definition(item.__code__, item_name)
                yield from self._take_statement(statement, Need(item_name, name))
        live = self.module.globals.get(name)
        if isinstance(live, type) and any("__subclasses__" in each.source for each in self.module.statements):
            subclasses: list[type] = type.__subclasses__(live)
            for subclass in subclasses:
                if self.module.globals.get(subclass.__name__) is subclass:
                    yield Need(subclass.__name__, name)
                elif not self.grader and (
                    is_of_another(subclass, self.module) or subclass.__module__ == self._rules.main
                ):
                    self._add_filling(subclass)

    def _add_changing(self, name: str) -> None:
        """Adds the modules that change a value here: `rules.LIMITS["words"] = 5`."""
        without = {self._rules.main, self.module.globals.get("__name__"), *self._rules.refused}
        for other in (each for each in imported() if each.__name__ not in without):
            # Most modules have nothing of this one, and reading them takes long.
            if not names_leading_to(name, self.module, vars(other)):
                continue
            if names := names_changing(name, self.module, read(other, self._rules.known)):
                self.filled_by.setdefault(other.__name__, set()).update(names)

    def _add_filling(self, item: FunctionType | type) -> None:
        if item.__module__ == self._rules.main:
            self.filled_by_main.add(item.__name__)
        else:
            self.filled_by.setdefault(item.__module__, set()).add(item.__name__)

    def _take_unbound(self, need: Need) -> None:
        if need.name == "globals" and need.before is None:
            raise SourceError(
                f"{need.user} uses globals(), and only what a grader names is uploaded: put what it looks up there "
                "into a dict at module level"
            )
        live = self.module.globals.get(need.name, _MISSING)
        if need.name == "__doc__" and live:
            self._unbound[need.name] = need
            return
        if live is _MISSING or need.name.startswith("__") or need.name == "StringThread":
            return  # a builtin, or a name that is known only at run time
        if need.before is not None and need.name in self.module.binders:
            return  # the reading statement itself binds it, as in `with open(path) as file: text = file.read()`
        if f"{self.module.globals.get('__name__')}.{need.name}" == getattr(live, "__name__", None) and not self.grader:
            self._submodules.add(need.name)  # another module has imported it
            return
        star = self._star_import(need.name)
        if star is None:
            self._unbound[need.name] = need
            return
        self.taken.setdefault(star, set()).add(need.name)
        refuse_imports(star.node, need, star.text.label, self.allowed, self.refused)

    def _star_import(self, name: str) -> Statement | None:
        for statement in reversed(self.module.statements):
            node = statement.node
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                if imports.is_missing(node, self.allowed, self.refused):
                    source = getattr(self.module.globals[name], "__module__", None)
                    if source == node.module:
                        return statement
                elif hasattr(importlib.import_module(resolved(node, self.module.package)), name):
                    return statement
        return None

    def _bind_by_value(self, need: Need) -> None:
        if any(need.name in statement.names.rebinds for statement in self.taken) or need.name in self.state:
            return
        for statement in self.module.statements:
            node = statement.node
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                refuse_environment(self._origin(statement, need.name), need)
        value = literal(self.module.globals[need.name])
        if value is None:
            kind = type(self.module.globals[need.name]).__name__
            raise SourceError(
                f"{need.user} uses {need.name}, which no statement of its module binds, and its value ({kind}) "
                "is no constant that could be written down: define it by a statement at module level"
            )
        refuse_secret(value, need)
        self.values[need.name] = (None, value)

    def _follow_settings(self) -> None:
        """Takes statements such as `getcontext().prec = 50`, if the module that they configure is used."""
        known = imports.full_names(statement.node for statement in self.module.statements)
        for statement in self.module.statements:
            if statement not in self.taken and self._imports_settings(statement.node):
                for name in statement.names.binds:
                    self._try(self._take_statement(statement, Need(name, self.user)))
            if isinstance(statement.node, ast.Expr | ast.Assign) and statement not in self.taken:
                module = (set_up_by(statement, self.module, known) or "").rpartition(".")[0]
                if module in imports.OF_ALL_CODE:
                    self._try(self._take_statement(statement, Need(module, module)))
                elif module and self._uses(module):
                    self._follow(self._take_settings(statement, module))
                elif module and not self.grader:  # others may use it
                    self._try(self._take_settings(statement, module))

    def _take_settings(self, statement: Statement, module: str) -> Iterator[Need]:
        yield from self._take_statement(statement, Need(module, module))
        self._set_up.add(module)
        for name in statement.names.binds:  # `context = getcontext()` and then `context.prec = 50`
            yield from self._take_changes(name, after=statement.index)

    def _imports_settings(self, node: ast.stmt) -> bool:
        """Whether this imports a module of the author that has such a statement."""
        if not isinstance(node, ast.Import | ast.ImportFrom) or imports.is_missing(node, self.allowed, self.refused):
            return False
        found = uses([node], self.module.package, self._rules.refused)
        return any(sets_up_modules(name) for name in found)

    def _uses(self, module: str) -> bool:
        """Whether the module, or a package that it is in, is imported."""
        return any(f"{module}.".startswith(f"{name}.") for name in self._imported())

    def _imported(self) -> set[str]:
        nodes = [statement.node for statement in self.taken]
        names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        return names | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}

    def _follow_annotations(self, names: Names) -> None:
        """Takes the names in annotations, if possible, because dataclasses evaluate some annotations."""
        todo = [names, *(statement.names for statement in self.taken)]
        for name in sorted({name for each in todo for name in each.annotations}):
            self._try([Need(name, "an annotation")])

    def _try(self, needs: Iterable[Need]) -> None:
        """Takes what is needed, or nothing of it if a part cannot be uploaded."""
        before = self._copy()
        try:
            self._follow(needs)
        except SourceError:
            self._restore(before)

    def _copy(self) -> dict[str, Any]:
        copied: dict[str, Any] = {key: value for key, value in vars(self).items() if not isinstance(value, dict | set)}
        copied["taken"] = {statement: set(names) for statement, names in self.taken.items()}
        copied["filled_by"] = {name: set(filling) for name, filling in self.filled_by.items()}
        others = ("values", "state", "filled_by_main", "_set_up", "_unbound", "_done", "_submodules")
        return copied | {key: vars(self)[key].copy() for key in others}

    def _restore(self, copied: dict[str, Any]) -> None:
        vars(self).update(copied)

    def compared_names(self) -> set[str]:
        """The names at module level whose values have to be equal here and in the copy."""
        names = {name for name, before in self._done if before is None and name in self.module.binders}
        names |= {statement.node.name for statement in self.taken if isinstance(statement.node, ast.ClassDef)}
        names &= self.module.globals.keys()
        return {*names, *self.values, *([self.user] if self.grader else [])}

    def compared_settings(self) -> set[str]:
        """The modules of the standard library whose settings have to be equal."""
        # Other programs set the limits of `sys`, too, as a debugger does, and so may the grader.
        taken = {*self.taken, *([self.module.definition(self.grader.__code__, self.user)[0]] if self.grader else [])}
        left = [each.source for each in self.module.statements if each not in taken]
        sets_limits = any(name.partition(".")[2] in each for name in imports.LIMITS for each in left)
        used = self._imported() - {"sys"} | ({"sys"} if sets_limits else set())
        return (used & SETTINGS.keys()) - self._set_up

    def computes(self) -> bool:
        """Whether a value may differ: one that is computed, or imported from another module of the author."""
        return any(self._computes(statement) for statement in self.taken)

    def _computes(self, statement: Statement) -> bool:
        node = statement.node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            code = getattr(self.module.globals.get(node.name), "__code__", None)
            given = node.decorator_list or node.args.defaults or node.args.kw_defaults
            return bool(given) or getattr(code, "co_firstlineno", None) != first_line(node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            return bool(uses([node], self.module.package, self._rules.refused))
        return isinstance(node, ast.ClassDef) or any(
            name not in self.values and not self._is_written(name, node) for name in self.taken[statement]
        )

    def _is_written(self, name: str, node: ast.stmt) -> bool:
        value = literal(self.module.globals.get(name, _MISSING))
        return value is not None and value == written(node, name)


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
