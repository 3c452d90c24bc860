"""Finds the statements of a module that a grader needs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any, NamedTuple

from gradebox.errors import SourceError
from gradebox.snapshot import SETTINGS
from gradebox.snapshot_program import ComparedNames
from gradebox.source import imports
from gradebox.source.literal import literal, written
from gradebox.source.live import VALUES, changes, check_definition, own_contents, wraps
from gradebox.source.module import Module, Statement
from gradebox.source.names import Names, first_line, is_definition
from gradebox.source.state import changed_names, changed_parts, statements_changing

_FROM_OUTSIDE = {"environ", "environb", "getenv", "getpass"}
_FROM_COMMAND = {"parse_args", "parse_known_args", "argv"}
_MISSING = object()


class Need(NamedTuple):
    """A name that `user` reads when it is called or, with `before`, when the statement with that index runs."""

    name: str
    user: str
    before: int | None = None


class Closure:
    """The statements that a grader needs, and the constants that are uploaded as their current values.

    Attributes:
        taken: the statements, with the names for which they are needed.
        values: assignments of values, each with the statement that it replaces, or None.
        calls_itself: whether the uploaded source uses the grader by name.
        state: names whose values the uploaded functions change. They start with the value in the text.
    """

    def __init__(
        self,
        module: Module,
        grader: FunctionType,
        allowed: imports.Allowed = imports.nothing,
        differing: Mapping[str, bool] | None = None,
        widely: bool = False,
    ) -> None:
        """Has nothing yet.

        Args:
            module: the module.
            grader: its function that is uploaded.
            allowed: decides which imports may be uploaded although the sandbox's standard library lacks them.
            differing: names whose values depend on functions that the module ran; false if the grader itself may have
                changed them. The statements that ran them are taken, if all they need can be uploaded.
            widely: take all statements that run a function and use one of these names.
        """
        self.allowed = allowed
        self.module = module
        self.grader = grader
        self.taken: dict[Statement, set[str]] = {}
        self.values: dict[str, tuple[Statement | None, str]] = {}
        self.calls_itself = False
        self._differing = differing or {}
        self._widely = widely
        self._set_up: set[str] = set()
        self.state: set[str] = set()
        self._unbound: dict[str, Need] = {}
        self._done: set[tuple[str, int | None]] = set()

    def follow(self, names: Names, at: int) -> None:
        """Takes everything that a statement with these names needs; `at` is its index.

        Raises:
            SourceError: a part cannot be uploaded.
        """
        self.state = self._with_aliases(changed_names(names, self.module))
        while True:
            self._clear()
            self._follow(self._needs(names, self.grader.__name__, at))
            self._follow_settings()
            self._follow_annotations(names)
            changed = {name for name in self.values if self._changes_in_source(name)}
            changed |= self._changed_by_grader() & self.values.keys()
            if not changed:
                break
            self.state |= self._with_aliases(changed)
        for need in self._unbound.values():
            self._bind_by_value(need)

    def _clear(self) -> None:
        self.taken.clear()
        self.values.clear()
        self._unbound.clear()
        self._done.clear()

    def _changed_by_grader(self) -> set[str]:
        """The names that the grader and taken functions change, also by arguments and by other names of a part."""
        _, node = self.module.definition(self.grader.__code__, self.grader.__name__)
        return changed_parts(node, [statement.node for statement in self.taken])[0]

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
        if name in ("grade", self.grader.__name__) and self._is_grader(name):
            self.calls_itself = True
            yield from self._take_changes(name, after=-1)
            return
        if name == "grade" and (name in self.module.globals or name in self.module.binders):
            raise SourceError(
                f"{need.user} uses something else that is called `grade`, which is what {self.grader.__name__} "
                "is called once it is uploaded: give the other one a different name"
            )
        if name == "__file__":
            raise SourceError(
                f"{need.user} uses __file__, and the sandbox holds no file of yours: "
                "write what you read from files into the source"
            )
        binders = self._binders(name, need.before)
        if not binders:
            self._take_unbound(need)
        elif (value := self._value(name, binders)) is not None:
            _refuse_environment(binders[0], need)
            self.values[name] = (binders[0], value)
        else:
            for statement in binders:
                yield from self._take_statement(statement, need)
            yield from self._take_changes(name, after=binders[0].index)
            self._take_calls(name, after=binders[0].index)

    def _is_grader(self, name: str) -> bool:
        return wraps(self.module.globals.get(name), self.grader)

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
        if isinstance(node, ast.Import | ast.ImportFrom) and not imports.is_missing(node, self.allowed):
            return None
        value = literal(self.module.globals[name])
        return None if value is None or value == written(node, name) else value

    def _take_statement(self, statement: Statement, need: Need) -> Iterator[Need]:
        first = statement not in self.taken
        self.taken.setdefault(statement, set()).add(need.name)
        node = statement.node
        if isinstance(node, ast.Import | ast.ImportFrom):
            node = imports.only(node, {need.name})
        user = need._replace(user=need.name) if is_definition(node) else need
        refuse_imports(node, user, statement.text.label, self.allowed)
        if not first:
            return
        _refuse_environment(statement, need)
        _refuse_command_line(statement, need)
        refuse_own_module(node, user)
        check_definition(statement, need.name, self.module, self.grader)
        yield from self._needs(statement.names, need.name, statement.index)
        yield from self._take_contents(need.name)

    def _take_changes(self, name: str, after: int) -> Iterator[Need]:
        for statement in changes(name, self.module):
            if statement.index > after and statement not in self.taken:
                yield from self._take_statement(statement, Need(name, name))

    def _take_calls(self, name: str, after: int) -> None:
        if name not in self._differing:
            return
        for statement in statements_changing(name, self.module, self.grader.__name__, widely=self._widely):
            # `results = [helper(one) for one in data]` probably only filled a cache of the helper.
            is_trial = isinstance(statement.node, ast.Assign | ast.AnnAssign) and not self._differing[name]
            if statement.index > after and statement not in self.taken and not is_trial:
                self._try(self._take_statement(statement, Need(name, name)))

    def _take_contents(self, name: str) -> Iterator[Need]:
        """Takes the module's functions and classes in a container, such as one that a decorator filled."""
        for item in own_contents(self.module.globals.get(name), self.module, self.grader):
            item_name = item.__name__
            if isinstance(item, FunctionType):
                statement, _ = self.module.definition(item.__code__, item_name)
                yield from self._take_statement(statement, Need(item_name, name))
            elif self.module.globals.get(item_name) is item:
                yield Need(item_name, name)
        live = self.module.globals.get(name)
        if isinstance(live, type) and any("__subclasses__" in each.source for each in self.module.statements):
            subclasses: list[type] = type.__subclasses__(live)
            for subclass in subclasses:
                if self.module.globals.get(subclass.__name__) is subclass:
                    yield Need(subclass.__name__, name)

    def _take_unbound(self, need: Need) -> None:
        if need.name == "globals" and need.before is None:
            raise SourceError(
                f"{need.user} uses globals(), and only what a grader names is uploaded: put what it looks up there "
                "into a dict at module level"
            )
        live = self.module.globals.get(need.name, _MISSING)
        if live is _MISSING or need.name.startswith("__") or need.name == "StringThread":
            return  # a builtin, or a name that is known only at run time
        if need.before is not None and need.name in self.module.binders:
            return  # the reading statement itself binds it, as in `with open(path) as file: text = file.read()`
        star = self._star_import(need.name)
        if star is None:
            self._unbound[need.name] = need
            return
        self.taken.setdefault(star, set()).add(need.name)
        refuse_imports(star.node, need, star.text.label, self.allowed)

    def _star_import(self, name: str) -> Statement | None:
        for statement in reversed(self.module.statements):
            node = statement.node
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                if imports.is_missing(node, self.allowed):
                    source = getattr(self.module.globals[name], "__module__", None)
                    if source == node.module:
                        return statement
                elif hasattr(__import__(node.module or "", fromlist=["*"]), name):
                    return statement
        return None

    def _bind_by_value(self, need: Need) -> None:
        if any(need.name in statement.names.rebinds for statement in self.taken) or need.name in self.state:
            return
        value = literal(self.module.globals[need.name])
        if value is None:
            kind = type(self.module.globals[need.name]).__name__
            raise SourceError(
                f"{need.user} uses {need.name}, which no statement of its module binds, and its value ({kind}) "
                "is no constant that could be written down: define it by a statement at module level"
            )
        self.values[need.name] = (None, value)

    def _follow_settings(self) -> None:
        """Takes statements such as `getcontext().prec = 50`, if the module that they configure is used."""
        known = imports.full_names(statement.node for statement in self.module.statements)
        for statement in self.module.statements:
            if isinstance(statement.node, ast.Expr | ast.Assign) and statement not in self.taken:
                module = (imports.sets_up(statement.node, known) or "").rpartition(".")[0]
                if module in imports.OF_ALL_CODE:
                    self._try(self._take_statement(statement, Need(module, module)))
                elif module and self._uses(module):
                    self._follow(self._take_statement(statement, Need(module, module)))
                    self._set_up.add(module)
                    for name in statement.names.binds:  # `context = getcontext()` and then `context.prec = 50`
                        self._follow(self._take_changes(name, after=statement.index))

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
        return copied | {key: vars(self)[key].copy() for key in ("values", "state", "_unbound", "_done")}

    def _restore(self, copied: dict[str, Any]) -> None:
        vars(self).update(copied)

    def compared(self, node: ast.stmt) -> ComparedNames | None:
        """What has to be equal here and in the copy; `node` is the grader's definition. None if nothing can differ."""
        modules = (self._imported() & SETTINGS.keys()) - self._set_up
        if not modules and not any(self._computes(statement) for statement in self.taken):
            return None
        names = {name for name, before in self._done if before is None and name in self.module.binders}
        names |= {statement.node.name for statement in self.taken if isinstance(statement.node, ast.ClassDef)}
        names &= self.module.globals.keys()
        names |= {self.grader.__name__, *self.values}
        changed, attributes = changed_parts(node, [statement.node for statement in self.taken])
        return ComparedNames(self.grader.__name__, names, changed & names, attributes, modules)

    def _computes(self, statement: Statement) -> bool:
        node = statement.node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            code = getattr(self.module.globals.get(node.name), "__code__", None)
            given = node.decorator_list or node.args.defaults or node.args.kw_defaults
            return bool(given) or getattr(code, "co_firstlineno", None) != first_line(node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            return False
        return isinstance(node, ast.ClassDef) or any(
            name not in self.values and not self._is_written(name, node) for name in self.taken[statement]
        )

    def _is_written(self, name: str, node: ast.stmt) -> bool:
        value = literal(self.module.globals.get(name, _MISSING))
        return value is not None and value == written(node, name)


def refuse_imports(node: ast.AST, need: Need, label: str, allowed: imports.Allowed = imports.nothing) -> None:
    """Raises SourceError for an import that would fail in the sandbox."""
    for statement, name in imports.missing(node, allowed):
        raise SourceError(
            f"{need.user} needs `{ast.unparse(statement)}` ({label}, line {statement.lineno}), "
            f"and {imports.explain(name)}"
        )


def refuse_own_module(node: ast.AST, need: Need) -> None:
    """Raises SourceError for `sys.modules[...]` and `grade.__globals__`, by which a function looks up names of its
    module.
    """
    for part in ast.walk(node):
        # Setting an entry is none: `sys.modules["resource"] = None` is usual before a program is run.
        is_look_up = (
            isinstance(part, ast.Subscript)
            and isinstance(part.ctx, ast.Load)
            and ast.unparse(part.value) == "sys.modules"
        )
        if isinstance(part, ast.Attribute):
            is_look_up = part.attr == "__globals__" or ast.unparse(part) == "sys.modules.get"
        if is_look_up:
            raise SourceError(
                f"{need.user} uses `{ast.unparse(part)}`, and only what a grader names is uploaded: put what it looks "
                "up there into a dict at module level"
            )


def _refuse_environment(statement: Statement, need: Need) -> None:
    """Raises SourceError for a value from this machine, which may be a secret."""
    if name := _used(statement, _FROM_OUTSIDE):
        raise SourceError(
            f"{need.user} uses {need.name}, which {statement.where} takes from this machine ({name}): the sandbox "
            "has no environment, and values from yours are not uploaded unasked. Write the value into the source"
        )


def _refuse_command_line(statement: Statement, need: Need) -> None:
    """Raises SourceError for a statement that would read the command line again, in the sandbox."""
    if name := _used(statement, _FROM_COMMAND):
        raise SourceError(
            f"{need.user} uses {need.name}, which {statement.where} takes from the command line ({name}): the sandbox "
            "has none. Copy what the grader needs into a constant of its own, as in LIMIT = args.limit"
        )


def _used(statement: Statement, names: set[str]) -> str | None:
    """The first of these names that the statement uses, also as an attribute; None in a definition."""
    if is_definition(statement.node):
        return None
    for part in ast.walk(statement.node):
        name = part.attr if isinstance(part, ast.Attribute) else part.id if isinstance(part, ast.Name) else ""
        if name in names:
            return name
    return None


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
