"""Follows the names that a grader uses to the statements that bind them, and adds these to its closure."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple

from gradebox.errors import SourceError
from gradebox.snapshot.snapshot import UNDESCRIBED, Snapshot
from gradebox.source import imports
from gradebox.source.binding import origin, star_import, statements_binding
from gradebox.source.closure import Closure
from gradebox.source.literal import MAX_CHARS, holds_named, is_constant, literal, written
from gradebox.source.live import (
    VALUES,
    changes,
    check_definition,
    contents_of_others,
    holds,
    is_of_another,
    names_changing,
    names_leading_to,
    own_contents,
    wraps,
)
from gradebox.source.module import Statement, read
from gradebox.source.names import Names, is_definition
from gradebox.source.own_modules import absolute, find, imported, is_own, resolved, sets_up_modules, uses
from gradebox.source.refusals import (
    Need,
    refuse_command_line,
    refuse_environment,
    refuse_imports,
    refuse_module_name,
    refuse_own_module,
    refuse_secret,
)
from gradebox.source.settings import Setting, set_up_by
from gradebox.source.state import changed_in, changed_names, changed_parts, effects, statements_changing

_MISSING = object()


class Reach(NamedTuple):
    """What a grader runs: the functions where it starts, and the other modules, each as its values and definitions."""

    start: Sequence[ast.AST]
    others: Sequence[tuple[Mapping[str, Any], Sequence[ast.stmt]]] = ()


def follow(closure: Closure, names: Names, at: int, reach: Reach, changed: Collection[str] = ()) -> Closure:
    """Returns a closure of the same module, with everything that a statement with these names needs.

    Args:
        closure: one of the module. What it has is not used.
        names: the names.
        at: the index of the statement; of one in another module, the number of statements.
        reach: what the grader runs outside of the closure.
        changed: names that other modules change.

    Raises:
        SourceError: a part cannot be uploaded.
    """
    following = _Following(closure)
    following.follow(names, at, reach, changed)
    return following.closure


class _Following:
    def __init__(self, closure: Closure) -> None:
        self.closure = closure.empty()
        self._module = closure.module
        self._grader = closure.grader
        self._user = closure.user
        self._rules = closure.rules
        # Names whose values the uploaded functions change. They start with the value in the text.
        self._state: set[str] = set()

    def follow(self, names: Names, at: int, reach: Reach, changed: Collection[str] = ()) -> None:
        """As the function `follow`."""
        self._state = self._with_aliases(changed_names(names, self._module) | set(changed))
        while True:
            self.closure = self.closure.empty()
            self._follow(self._needs(names, self._user, at))
            self._follow_settings()
            self._follow_annotations(names)
            self._take_calls_of_others()
            changing = {name for name in self.closure.values if self._changes_in_source(name)}
            changing |= self._changing(reach) & self.closure.values.keys()
            if not changing:
                break
            self._state |= self._with_aliases(changing)
        for need in self.closure.unbound.values():
            self._bind_by_value(need)

    def _changing(self, reach: Reach) -> set[str]:
        """The names that change when the grader runs."""
        own = (self._module.globals, [statement.node for statement in self.closure.taken])
        modules = [own, *reach.others] if self._grader else [*reach.others, own]  # the grader is in the first
        names, _ = changed_parts(reach.start, [definitions for _, definitions in modules])
        return changed_in(self._module.globals, zip((live for live, _ in modules), names, strict=True))

    def _with_aliases(self, names: set[str]) -> set[str]:
        """These names, and those of the same objects, or of containers that were made with them."""
        live, binders = self._module.globals, self._module.binders
        same = {id(live[name]) for name in names if name in live and not isinstance(live[name], VALUES)}
        found = names | {name for name in binders if id(live.get(name)) in same}
        made = {name for name in binders.keys() - found if any(found & each.names.eager for each in binders[name])}
        holding = {name for name in made if holds(live.get(name), same, self._module)}
        return self._with_aliases(found | holding) if holding else found

    def _changes_in_source(self, name: str) -> bool:
        """Whether a taken statement changes the value, or reads it before a later change. Then the text is uploaded."""
        return any(
            change in self.closure.taken
            or any(name in s.names.eager and s.index < change.index for s in self.closure.taken)
            for change in changes(name, self._module)
        )

    def _follow(self, needs: Iterable[Need]) -> None:
        todo = list(needs)
        while todo:
            need = todo.pop()
            if (need.name, need.before) not in self.closure.done:
                self.closure.done.add((need.name, need.before))
                todo.extend(self._take(need))

    def _needs(self, names: Names, user: str, at: int) -> Iterator[Need]:
        # `_follow` processes the last one first, so that an error names what is read first.
        yield from (Need(name, user) for name in sorted(names.deferred, reverse=True))
        yield from (Need(name, user, at) for name in sorted(names.eager, reverse=True))
        if self._rules.again and at < len(self._module.statements):
            yield from (Need(name, user, at) for name in sorted(self._bound_again(at)))

    def _bound_again(self, at: int) -> set[str]:
        """The names that functions read when a statement ran them, and that have another value since then."""
        _, used = effects(self._module.statements[at], self._module)
        return {
            name
            for name in used
            if (binding := statements_binding(name, at, self._module))
            and binding != statements_binding(name, None, self._module)
        }

    def _take(self, need: Need) -> Iterator[Need]:
        name = need.name
        if self._grader and name in ("grade", self._user) and wraps(self._module.globals.get(name), self._grader):
            self.closure.calls_itself = True
            yield from self._take_changes(name, after=-1)
            return
        if self._grader and name == "grade" and (name in self._module.globals or name in self._module.binders):
            raise SourceError(
                f"{need.user} uses something else that is called `grade`, which is what {self._user} "
                "is called once it is uploaded: give the other one a different name"
            )
        if name == "__file__":
            raise SourceError(
                f"{need.user} uses __file__, and the sandbox holds no file of yours: "
                f"write what you read from files into the source, as a constant of at most {MAX_CHARS >> 10} KiB, or "
                "send it as the data of an environment"
            )
        binding = statements_binding(name, need.before, self._module)
        if not binding:
            self._take_unbound(need)
        elif star := star_import(name, self.closure, binding[-1].index, need.before):
            self._take_star(star, need)
        elif (value := self._value(name, binding)) is not None:
            refuse_environment(origin(binding[0], name, self.closure), need)
            refuse_secret(value, need)
            self.closure.values[name] = (binding[0], value)
        else:
            for statement in binding:
                yield from self._take_statement(statement, need)
            yield from self._take_changes(name, after=binding[0].index)
            self._take_calls(name, after=binding[0].index)

    def _value(self, name: str, binding: list[Statement]) -> str | None:
        """The current value of `name` as a literal, if it is a constant that the text does not already contain."""
        node = binding[0].node
        if name in self._state or name not in self._module.globals or is_definition(node):
            return None
        if len(binding) > 1 or binding != statements_binding(name, None, self._module):
            return None
        if isinstance(node, ast.Import | ast.ImportFrom) and self._is_found(node, name):
            return None
        live = self._module.globals[name]
        if isinstance(live, bool | None) and isinstance(node, ast.Try) and imports.has_import(node):
            return None  # such as HAS_SYMPY: it is computed from the packages that are there
        value = literal(live)
        is_text = value == written(node, name) or holds_named(node, live, self._module.globals)
        return None if is_text else value

    def _is_found(self, node: imports.Import, name: str) -> bool:
        """Whether the import works in the sandbox, and gives the name its current value there.

        A constant of another module of the author needs no import: its value is enough.
        """
        if imports.is_missing(node, self.closure.allowed, self.closure.refused):
            return False
        own = find(resolved(node, self._module.package)) if isinstance(node, ast.ImportFrom) else None
        alias = next((each.name for each in node.names if imports.bound_name(each, node) == name), name)
        value = self._module.globals[name]
        return own is None or (getattr(own, alias, None) is value and not is_constant(value))

    def _take_statement(self, statement: Statement, need: Need) -> Iterator[Need]:
        first = statement not in self.closure.taken
        self.closure.taken.setdefault(statement, set()).add(need.name)
        node = statement.node
        if isinstance(node, ast.Import | ast.ImportFrom):
            node = imports.only(node, {need.name})
        user = need._replace(user=need.name) if is_definition(node) else need
        refuse_imports(node, user, statement.text.label, self._allowed_in(node), self.closure.refused)
        if not first:
            return
        refuse_environment(statement, need)
        refuse_command_line(statement, need)
        refuse_own_module(node, user)
        if self._grader:
            refuse_module_name(node, user, self._module.globals.get("__name__"))
        check_definition(statement, need.name, self._module)
        yield from self._needs(statement.names, need.name, statement.index)
        if need.name not in self.closure.searched:
            self.closure.searched.add(need.name)
            yield from self._take_contents(need.name)

    def _allowed_in(self, node: ast.stmt) -> imports.Allowed:
        """As `allowed`. In an `if`, modules that were not imported here stay behind: that branch did not run."""

        def allowed(name: str) -> bool:
            full = absolute(name, self._module.package)
            return (full not in sys.modules and is_own(full)) or self.closure.allowed(name)

        return allowed if isinstance(node, ast.If) else self.closure.allowed

    def _take_changes(self, name: str, after: int) -> Iterator[Need]:
        for statement in changes(name, self._module):
            if statement.index > after and statement not in self.closure.taken:
                yield from self._take_statement(statement, Need(name, name))

    def _take_calls(self, name: str, after: int, *, widely: bool = False) -> None:
        differing, package = self.closure.differing, self._package_of(name)
        if name not in differing and not package:
            return
        grader, widely = self._user if self._grader else "", name in differing and (widely or self._rules.widely)
        for statement in statements_changing(name, self._module, grader, widely=widely, package=package):
            # `results = [helper(one) for one in data]` probably only filled a cache of the helper.
            is_trial = isinstance(statement.node, ast.Assign | ast.AnnAssign) and not differing.get(name)
            if statement.index > after and statement not in self.closure.taken and not is_trial:
                self._try(self._take_statement(statement, Need(name, name)))

    def _package_of(self, name: str) -> str:
        """The first name of the package that an object of this name is of, if it only computes or is installed, and a
        comparison tells nothing of the object. Else empty.
        """
        live = self._module.globals.get(name)
        package = type(live).__module__.partition(".")[0]
        if not (imports.only_computes(package) or imports.is_installed(package)):
            return ""
        snapshot = Snapshot(self._module.globals, {})
        snapshot.add(name)
        return package if set(snapshot.texts.values()) == {UNDESCRIBED} else ""

    def _take_calls_of_others(self) -> None:
        """Takes the statements that ran functions of other modules if values of these differ: `rules.configure(5)`."""
        for name in self.closure.differing:
            value = self._module.globals.get(name)
            if is_of_another(value, self._module):  # what a function of another module changes is not seen here
                self._take_calls(name, after=-1, widely=isinstance(value, FunctionType))

    def _take_contents(self, name: str) -> Iterator[Need]:
        """Takes the author's functions and classes in a container, such as one that a decorator filled."""
        if not self._grader:
            for item in contents_of_others(self._module.globals.get(name), self._module, self._rules.main):
                self._add_filling(item)
            if name in self.closure.differing:
                self._add_changing(name)
        for item in own_contents(self._module.globals.get(name), self._module, self._grader):
            item_name = item.__name__
            if self._module.globals.get(item_name) is item:
                yield Need(item_name, name)
            elif isinstance(item, FunctionType) and not item.__closure__:  # else a function of the module made it
                statement, _ = self._module.definition(item.__code__, item_name)
                yield from self._take_statement(statement, Need(item_name, name))
        live = self._module.globals.get(name)
        if isinstance(live, type) and any("__subclasses__" in each.source for each in self._module.statements):
            subclasses: list[type] = type.__subclasses__(live)
            for subclass in subclasses:
                if self._module.globals.get(subclass.__name__) is subclass:
                    yield Need(subclass.__name__, name)
                elif not self._grader and (
                    is_of_another(subclass, self._module) or subclass.__module__ == self._rules.main
                ):
                    self._add_filling(subclass)

    def _add_changing(self, name: str) -> None:
        """Adds the modules that change a value here: `rules.LIMITS["words"] = 5`."""
        without = {self._rules.main, self._module.globals.get("__name__"), *self._rules.refused}
        for other in (each for each in imported() if each.__name__ not in without):
            # Most modules have nothing of this one, and reading them takes long.
            if not names_leading_to(name, self._module, vars(other)):
                continue
            if names := names_changing(name, self._module, read(other, self._rules.known)):
                self.closure.filled_by.setdefault(other.__name__, set()).update(names)

    def _add_filling(self, item: FunctionType | type) -> None:
        if item.__module__ == self._rules.main:
            self.closure.filled_by_main.add(item.__name__)
        else:
            self.closure.filled_by.setdefault(item.__module__, set()).add(item.__name__)

    def _take_unbound(self, need: Need) -> None:
        if need.name == "globals" and need.before is None:
            raise SourceError(
                f"{need.user} uses globals(), and only what a grader names is uploaded: put what it looks up there "
                "into a dict at module level"
            )
        live = self._module.globals.get(need.name, _MISSING)
        if need.name == "__doc__" and live:
            self.closure.unbound[need.name] = need
            return
        if live is _MISSING or need.name.startswith("__") or need.name == "StringThread":
            return  # a builtin, or a name that is known only at run time
        if need.before is not None and need.name in self._module.binders:
            return  # the reading statement itself binds it, as in `with open(path) as file: text = file.read()`
        full_name = f"{self._module.globals.get('__name__')}.{need.name}"
        if not self._grader and getattr(live, "__name__", None) == full_name:
            self.closure.submodules.add(need.name)  # another module has imported it
            return
        star = star_import(need.name, self.closure)
        if star is None:
            self.closure.unbound[need.name] = need
        else:
            self._take_star(star, need)

    def _take_star(self, star: Statement, need: Need) -> None:
        self.closure.taken.setdefault(star, set()).add(need.name)
        refuse_imports(star.node, need, star.text.label, self.closure.allowed, self.closure.refused)

    def _bind_by_value(self, need: Need) -> None:
        if any(need.name in statement.names.rebinds for statement in self.closure.taken) or need.name in self._state:
            return
        for statement in self._module.statements:
            node = statement.node
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                refuse_environment(origin(statement, need.name, self.closure), need)
        value = literal(self._module.globals[need.name])
        if value is None:
            if need.name == "get_ipython":
                raise SourceError(
                    f"{need.user} uses a magic, or a command such as `!ls`, and the sandbox has no notebook: copy what "
                    "it gave into a constant in another cell, as in names = list(files)"
                )
            kind = type(self._module.globals[need.name]).__name__
            raise SourceError(
                f"{need.user} uses {need.name}, which no statement of its module binds, but `exec`, `%run` or a "
                f"function that declares it global, and its value ({kind}) is no constant that could be written down: "
                "define it by a statement at module level, or import it"
            )
        refuse_secret(value, need)
        self.closure.values[need.name] = (None, value)

    def _follow_settings(self) -> None:
        """Takes statements such as `getcontext().prec = 50`, if the module that they configure is used."""
        for statement in self._module.statements:
            for name in sorted(statement.names.binds - self.closure.taken.get(statement, set())):
                if self._imports_settings(statement.node, name):
                    self._try(self._take_statement(statement, Need(name, self._user)))
            if statement not in self.closure.taken:
                setting = set_up_by(statement, self._module, self._rules.known, self._uses)
                if setting:
                    self._take_setting(statement, setting)

    def _take_setting(self, statement: Statement, setting: Setting) -> None:
        module = setting.module
        is_call = not setting.is_inside and imports.sets_up(statement.node, self._module.imported) is not None
        if module in imports.OF_ALL_CODE and not setting.by_program:
            self._try(self._take_statement(statement, Need(module, module)))
        elif self._grader and is_call:
            self._follow(self._take_settings(statement, module))
        elif not setting.by_program:
            self._try(self._take_settings(statement, module))
        # Those of the standard library, and of the author's modules, are compared.
        is_of_package = imports.is_installed(module.partition(".")[0])
        if statement not in self.closure.taken and is_of_package and not setting.name.endswith("seed"):
            self.closure.left_settings[statement.where] = setting

    def _take_settings(self, statement: Statement, module: str) -> Iterator[Need]:
        yield from self._take_statement(statement, Need(module, module))
        self.closure.set_up.add(module)
        for name in statement.names.binds:  # `context = getcontext()` and then `context.prec = 50`
            yield from self._take_changes(name, after=statement.index)

    def _imports_settings(self, node: ast.stmt, name: str) -> bool:
        """Whether this imports the name from a module of the author that has such a statement."""
        if not isinstance(node, ast.Import | ast.ImportFrom):
            return False
        node = imports.only(node, {name})
        if imports.is_missing(node, self.closure.allowed, self.closure.refused):
            return False
        found = uses([node], self._module.package, self._rules.refused)
        return any(sets_up_modules(name) for name in found)

    def _uses(self, module: str) -> bool:
        """Whether the copy imports the package that the module is in. All may use what `OF_ALL_CODE` has, and of the
        standard library what another module than the grader's sets.
        """
        if module in imports.OF_ALL_CODE:
            return True
        top = module.partition(".")[0]
        used = {name.partition(".")[0] for name in self.closure.imported_names()} | self._rules.used
        return bool(top) and (top in used or (not self._grader and top in sys.stdlib_module_names))

    def _follow_annotations(self, names: Names) -> None:
        """Takes the names in annotations, if possible, because dataclasses evaluate some annotations."""
        tried = set[str]()
        while True:  # what was taken may have annotations, too
            reached = [names, *(statement.names for statement in self.closure.taken)]
            todo = {name for each in reached for name in each.annotations} - tried
            if not todo:
                return
            for name in sorted(todo):
                self._try([Need(name, "an annotation")])
            tried |= todo

    def _try(self, needs: Iterable[Need]) -> None:
        """Takes what is needed, or nothing of it if a part cannot be uploaded."""
        before = self.closure.copy()
        try:
            self._follow(needs)
        except SourceError:
            self.closure = before
