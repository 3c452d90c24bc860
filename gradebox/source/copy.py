"""The statements that are uploaded with a grader: of its own module, and of the author's modules that it imports."""

import ast
import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

from gradebox.errors import SourceError
from gradebox.limits import MAX_SOURCE_BYTES
from gradebox.snapshot.difference import Difference
from gradebox.snapshot.program import ComparedNames
from gradebox.source import imports
from gradebox.source.closure import Closure, CopyRules
from gradebox.source.following import Reach, follow
from gradebox.source.live import home_of
from gradebox.source.module import Module, Statement, read
from gradebox.source.names import Definition, Names, computes_when_defined
from gradebox.source.own_modules import Use, find, imported
from gradebox.source.state import advancing, changed_in, changed_parts, reads

Differing = Mapping[str, Mapping[str, bool]]
"""By module ("" is the grader's): as `differing` of a `Closure`."""
_MOST_FOLLOWED = 2 * MAX_SOURCE_BYTES  # a part may be left out later, if it is for annotations alone


def too_long(name: str, size: int, at_least: str = "") -> SourceError:
    """What is raised if a grader with this name, and all that it uses, has too many bytes."""
    return SourceError(
        f"{name} and what it uses come to {at_least}{size:,} bytes, and a grader may have {MAX_SOURCE_BYTES:,} at "
        "most: make its constants smaller, or send what differs by sample in the metadata"
    )


class _Refused(Exception):  # never leaves this module
    def __init__(self, module: str, reason: SourceError) -> None:
        super().__init__(module)
        self.module = module
        self.reason = reason


class Copy:
    """A grader and what it needs.

    Attributes:
        main: the statements of the grader's module.
        own: those of the author's modules, by their full names.
        again: as of `CopyRules`.
    """

    def __init__(
        self,
        module: Module,
        grader: FunctionType,
        allowed: imports.Allowed,
        known: dict[str, Module],
        differing: Differing | None = None,
        widely: bool = False,
        again: bool = False,
    ) -> None:
        """Has nothing yet. The arguments are those of `CopyRules` and `Closure`."""
        main = module.globals.get("__name__", "")
        self._rules = CopyRules(allowed, main, widely, known, again)
        self.again = again
        self._differing = differing or {}
        self._uses: dict[str, Use] = {}
        self._read: dict[str, bool] = {}  # variables that may have changed, and whether they are read
        self.main = self._closure(module, "", grader)
        self.own: dict[str, Closure] = {}

    def follow(self, names: Names, statement: Statement, node: Definition) -> None:
        """Takes everything that the grader needs.

        Args:
            names: the names that it uses.
            statement: the statement that defines it.
            node: its definition.

        Raises:
            SourceError: a part cannot be uploaded.
        """
        first: SourceError | None = None
        while True:
            try:
                self._follow(names, statement, node)
            except _Refused as error:  # go on without the module, which may be needed in annotations alone
                first = first or error.reason
                if error.module in self._rules.refused:  # another one needs it
                    raise first from None
                self._rules.refused.add(error.module)
            except SourceError as error:
                raise first or error from None
            else:
                return

    def closures(self) -> list[Closure]:
        """Those of all modules."""
        return [self.main, *self.own.values()]

    def left_settings(self) -> list[str]:
        """Settings of packages that stay behind, with their places; without those that a function of the copy sets."""
        taken = {statement for each in self.closures() for statement in each.taken}
        left = [each for closure in self.closures() for each in closure.left_settings.items()]
        return [f"{each.name}, by {place}" for place, each in left if taken.isdisjoint(each.functions)]

    def compared(self, node: Definition) -> ComparedNames | None:
        """What has to be equal here and in the copy; `node` is the grader's definition. None if nothing can differ."""
        closures = self.closures()
        settings = set().union(*(each.compared_settings() for each in closures))
        if not settings and not computes_when_defined(node) and not any(each.computes() for each in closures):
            return None
        found, attributes = changed_parts([node], [each for _, each in self._nodes(closures)])
        changes = list(zip((each.module.globals for each in closures), found, strict=True))
        names = self.main.compared_names()
        others = {name: each.compared_names() for name, each in self.own.items()}
        changed = names & changed_in(self.main.module.globals, changes)
        for module, each in self.own.items():
            of_module = changed_in(each.module.globals, changes) | self._uses[module].changed
            changed |= {f"{module}:{name}" for name in others[module] & of_module}
        changing = {name for attribute in attributes for name in self._of_classes(attribute)}
        nodes = [node, *(part for _, parts in self._nodes(closures) for part in parts)]
        parts = (part for each in nodes for part in ast.walk(each))
        rebound = {name for part in parts if isinstance(part, ast.Global) for name in part.names}
        shared = names - rebound - {self.main.user}
        return ComparedNames(self.main.user, names, changed, changing, settings, others, shared)

    def may_score_differently(self, each: Difference, node: Definition) -> bool:
        """Whether a difference may matter although the grader itself may have made it: it reads the value."""
        if not each.may_change:
            return True
        if not each.is_state:
            return False
        if each.variable not in self._read:
            nodes = [node, *(part for _, parts in self._nodes(self.closures()) for part in parts)]
            self._read[each.variable] = reads(each.variable, nodes)
        return self._read[each.variable]

    def advanced_by(self, each: Difference) -> Statement | None:
        """A statement that stays here and made such a difference, without a call of the grader."""
        places = [(self.own.get(each.module, self.main).module, each.name)]
        if each.module:
            places += self._names_for(each.module)
        taken = {statement for one in self.closures() for statement in one.taken}
        for module, name in places:
            is_called = isinstance(module.globals.get(name), FunctionType | ModuleType)
            for statement in advancing(name, module, self.main.user, widely=is_called or each.is_by_use):
                if statement not in taken:
                    return statement
        return None

    def _names_for(self, module: str) -> Iterator[tuple[Module, str]]:
        """The names by which other modules have something of a module, as in `rules.count()`."""
        main = self.main.module
        others = [one for one in imported() if vars(one) is not main.globals]
        for one in (None, *others):
            live = main.globals if one is None else vars(one)
            names = [name for name, value in list(live.items()) if home_of(value) == module]
            if names:  # to read hundreds of modules takes seconds
                user = main if one is None else read(one, self._rules.known)
                yield from ((user, name) for name in names)

    def _of_classes(self, attribute: str) -> Iterator[str]:
        """`Cache.kept` of `Cache.kept`, and of `CACHE.kept` if that is an object of this class; `.kept` if the owner is
        not known. The same of the author's classes from which it is derived.
        """
        owner, _, name = attribute.rpartition(".")
        modules = [closure.module.globals for closure in self.closures()]
        own = {each.get("__name__") for each in modules}
        found = [each[owner] for each in modules if owner in each]
        for value in found:
            kind = value if isinstance(value, type) else type(value)
            yield from (f"{each.__name__}.{name}" for each in kind.__mro__ if each is kind or each.__module__ in own)
        yield attribute if found else f".{name}"  # a decorator may have replaced the class

    def _follow(self, names: Names, statement: Statement, node: Definition) -> None:
        self._rules.used.clear()
        self.main = follow(self.main, names, statement.index, Reach([node]))
        self._follow_own(node)
        again = bool(self.own)  # their functions may change what the grader passes to them
        filling = set[str]()
        while again:
            filling |= self._filled_by_main()
            self._rules.used |= self._imported()
            needed = dataclasses.replace(names, deferred=names.deferred | filling)
            self.main = follow(self.main, needed, statement.index, Reach([node], self._nodes(self.own.values())))
            self._follow_own(node)  # the modules may have settings of what others import
            again = not (self._filled_by_main() <= filling and self._imported() <= self._rules.used)

    def _imported(self) -> set[str]:
        """The first names of all that is imported."""
        return {name.partition(".")[0] for each in self.closures() for name in each.imported_names()}

    def _filled_by_main(self) -> set[str]:
        """The functions and classes of the grader's module that are in containers of others."""
        return set().union(*(each.filled_by_main for each in self.own.values())) - {self.main.user}

    def _follow_own(self, node: Definition) -> None:
        self._uses.clear()
        self.own.clear()
        todo = [self.main]
        while todo:
            for name, use in todo.pop().uses().items():
                known = self._uses.get(name)
                if known is None or known | use != known:
                    self._uses[name] = use if known is None else known | use
                    try:
                        self.own[name] = self._followed(name, node)
                    except SourceError as error:
                        raise _Refused(name, error) from None
                    todo.append(self.own[name])
                    self._refuse_length()

    def _refuse_length(self) -> None:
        """Stops early at a library that is a folder of the author."""
        size = sum(len(statement.source) for closure in self.closures() for statement in closure.taken)
        if size > _MOST_FOLLOWED:
            raise too_long(self.main.user, size, "over ")

    def _followed(self, name: str, node: Definition) -> Closure:
        live = find(name)
        assert live is not None  # `uses` found it
        module, use = read(live, self._rules.known), self._uses[name]
        if module.globals is self.main.module.globals and not _submodules(live).issuperset(use.names):
            raise SourceError(
                f"a module that {self.main.user} uses imports {name}, in which {self.main.user} itself is: "
                "move what both use into a module of its own"
            )
        closure = self._closure(module, name, None)
        needed = use.names | (_all_names(module) if use.whole else set())
        if not needed <= module.globals.keys():
            needed |= {"__getattr__"} & module.binders.keys()
        start = [node, *(ast.Name(each, ast.Load()) for each in needed)]
        reach = Reach(start, self._nodes([self.main]))
        return follow(closure, Names(deferred=needed), len(module.statements), reach, use.changed)

    def _closure(self, module: Module, name: str, grader: FunctionType | None) -> Closure:
        return Closure(module, grader, self._rules, self._differing_in(module, name))

    def _differing_in(self, module: Module, name: str) -> dict[str, bool]:
        """The names that differ in a module, and those of other modules in which something differs."""
        found = dict(self._differing.get(name, {}))
        for other, names in self._differing.items():
            for bound, value in module.globals.items():
                if other and other != name and home_of(value) == other:
                    found.setdefault(bound, any(names.values()))
        return found

    @staticmethod
    def _nodes(closures: Iterable[Closure]) -> list[tuple[Mapping[str, Any], list[ast.stmt]]]:
        return [(each.module.globals, [statement.node for statement in each.taken]) for each in closures]


def _submodules(package: ModuleType) -> set[str]:
    """The names that are submodules of a package."""
    return {name for name, value in vars(package).items() if sys.modules.get(f"{package.__name__}.{name}") is value}


def _all_names(module: Module) -> set[str]:
    statements = (each for each in module.statements if not each.is_main)
    return {name for each in statements for name in each.names.binds if name in module.globals}
