"""Extracts a function into a source that stands alone and can be uploaded."""

import ast
from collections.abc import Callable, Collection
from functools import partial
from time import monotonic
from types import FunctionType

from gradebox.errors import SourceError
from gradebox.limits import MAX_SOURCE_BYTES, SOURCE_BYTES
from gradebox.snapshot.difference import Difference, differences
from gradebox.source import imports
from gradebox.source.copy import Copy, too_long
from gradebox.source.function import original
from gradebox.source.module import Module, Statement
from gradebox.source.names import Definition, names_of
from gradebox.source.refusals import (
    MissingPackageError,
    Need,
    refuse_imports,
    refuse_module_name,
    refuse_own_module,
)
from gradebox.source.render import rendered
from gradebox.warn import warn

_COMPARISON_S = 20.0  # for all runs of the copies
_LONGER_S = 5.0  # of these, for a copy with more statements: a sandbox has to load it too
_SHOWN = 3  # differences or names in a warning
_LEFT_FOR_TEXTS = (
    "{user} may score differently once it is uploaded: it runs a text by `eval` or `exec`, and only what a grader "
    "names is uploaded. A text that uses {names} raises a NameError there. Give it what it may use, as in "
    'eval(text, {{"{first}": {first}}})'
)
_MOCKED = (
    "{user} may score differently once it is uploaded: {names} is mocked here, as by `unittest.mock.patch`, and not in "
    "the uploaded copy. Upload it where nothing is mocked"
)
_LEFT_SETTINGS = (
    "{user} may score differently once it is uploaded: it uses a package in which you set {left}. That statement is "
    "not uploaded, because it has a loop, or does more than compute. Set it by a statement of its own at module level"
)
_NOT_COMPARED = (
    "{user} may score differently once it is uploaded: the copy took longer than {seconds:g} s to load, so its values "
    "were not compared with yours. Read the copy, gradebox.grader_source({user}), or try again when the machine is idle"
)


def grader_source(fn: Callable[..., object], *, without: Collection[str] = ()) -> str:
    """The source that is uploaded for a grader function. You can read or change it, and pass it as `fn=`.

    Args:
        fn: as for `client.graders.create.function`.
        without: packages that the sandbox lacks and the grader never uses. Their imports stay in the source, and raise
            ImportError if they are executed.

    Raises:
        SourceError: `fn` cannot stand alone; the message gives the reason and the remedy.
    """
    return extract(fn, allowed=imports.of_packages(*without), compare=False)


def extract(
    fn: Callable[..., object],
    plain: bool = False,
    allowed: imports.Allowed = imports.nothing,
    compare: bool = True,
) -> str:
    """The source of `fn`, renamed to `grade`, with everything that it uses from its module.

    Statements are copied verbatim, in the order in which they ran. A constant whose statement does not contain its
    value literally, because it was computed or changed since, is written with its current value. If other values
    differ from those here, statements that run functions such as `fill()` are added, provided that fewer differ then.

    Args:
        fn: the function.
        plain: also accept a plain `def`.
        allowed: which imports may stay that are not in the standard library.
        compare: warn (GraderWarning) of values that still differ.

    Raises:
        SourceError: `fn` cannot stand alone; the message gives the reason and the remedy.
    """
    grader = original(fn, plain)
    module = Module.of_function(grader)
    statement, node = module.definition(grader.__code__, grader.__name__)
    _refuse_lost_decorators(fn, grader, module, node)
    deadline = monotonic() + _COMPARISON_S
    new_copy = partial(Copy, module, grader, allowed, {})  # the copies share what they read of the author's modules
    copy = new_copy()
    try:
        source = _source(copy, statement, node)
    except MissingPackageError as error:
        others = _also_missing(error, partial(Copy, module, grader), allowed, statement, node)
        raise SourceError(f"{error}{others}") from None
    compared = copy.compared(node)
    found = differences(source, module.globals, compared, deadline) if compared else []
    # It fails here: a cell that ran again may have bound a name after its use, or `del RULES["b"]` needs what a
    # decorator added.
    if compared and found is None:
        names = {"": compared.names, **compared.others}
        longer = new_copy({module: dict.fromkeys(each, True) for module, each in names.items()}, again=True)
        if (longer_source := _longer(longer, statement, node, source)) is not None:
            found = differences(longer_source, module.globals, compared, deadline)
            source, copy = (source, copy) if found is None else (longer_source, longer)
    if compare and compared and found is None and monotonic() >= deadline:
        warn(_NOT_COMPARED.format(user=grader.__name__, seconds=_COMPARISON_S))
    first = found = found or []
    for widely in (False, True):
        if not compared or not found:
            break
        # What the first attempt mended would differ again without its statements.
        differing = _differing_names([(each, copy.may_score_differently(each, node)) for each in (*first, *found)])
        longer = new_copy(differing, widely, copy.again)
        if (longer_source := _longer(longer, statement, node, source)) is not None:
            still = differences(longer_source, module.globals, compared, min(deadline, monotonic() + _LONGER_S))
            if still is not None and _is_closer(still, found):
                source, found, copy = longer_source, still, longer
    if compare:
        _warn(copy, _told(found, copy, node), grader.__name__)
    return source


def _warn(copy: Copy, told: list[Difference], user: str) -> None:
    if left := [name for each in copy.closures() for name in each.left_for_texts()]:
        warn(_LEFT_FOR_TEXTS.format(user=user, names=", ".join(left[:_SHOWN]), first=left[0]))
    if mocks := [name for each in copy.closures() for name in each.mocks()]:
        warn(_MOCKED.format(user=user, names=", ".join(mocks[:_SHOWN])))
    if settings := copy.left_settings():
        warn(_LEFT_SETTINGS.format(user=user, left="; ".join(settings[:_SHOWN])))
    if told:
        warn(_explain(told, user))


def _told(found: list[Difference], copy: Copy, node: Definition) -> list[Difference]:
    """The differences that the grader, in `node`, cannot have made alone."""
    told = [each for each in found if not each.may_change]
    moved = {each.name: each for each in found if each.may_change and copy.may_score_differently(each, node)}
    return told + [each._replace(by=by.where) for each in moved.values() if (by := copy.advanced_by(each))]


def _differing_names(found: list[tuple[Difference, bool]]) -> dict[str, dict[str, bool]]:
    """The names that differ, by module; false if the grader itself may have changed all that differs, or none of it
    matters.
    """
    names: dict[str, dict[str, bool]] = {}
    for each, matters in found:
        of_module = names.setdefault(each.module, {})
        of_module[each.name] = of_module.get(each.name, False) or matters
    return names


def _longer(copy: Copy, statement: Statement, node: Definition, shorter: str) -> str | None:
    """As `_source`; None if it is the `shorter` one, has a part that cannot be uploaded, or is too long for a service
    that is not set to take more: that would refuse what it takes with a warning.
    """
    try:
        source = _source(copy, statement, node)
    except SourceError:
        return None
    return source if source != shorter and len(source.encode()) <= SOURCE_BYTES else None


def _is_closer(new: list[Difference], old: list[Difference]) -> bool:
    """Whether differences are gone without others in their place. Those that the grader may have made count less. A
    state that is another one now is closer: the grader may have changed it again, here.
    """
    new_sure, old_sure = ({each.path for each in found if not each.may_change} for found in (new, old))
    new_all, old_all = ({each.path for each in found} for found in (new, old))
    states = {(each.path, each.there) for each in old if each.is_state and each.may_change}
    has_moved = any(each.is_state and each.may_change and (each.path, each.there) not in states for each in new)
    return new_sure < old_sure or (new_sure <= old_sure and (new_all < old_all or (new_all <= old_all and has_moved)))


def _also_missing(
    first: MissingPackageError,
    new_copy: Callable[..., Copy],
    allowed: imports.Allowed,
    statement: Statement,
    node: Definition,
) -> str:
    """Names the other packages that the sandbox lacks, so that one attempt tells all."""
    found, missing = [], first.package
    while missing not in found:
        found.append(missing)
        there = imports.of_packages(*found)
        try:
            _source(new_copy(lambda name, there=there: allowed(name) or there(name), {}), statement, node)
        except MissingPackageError as error:
            missing = error.package
        except SourceError:
            break  # it would be told once the packages are there
    return f". The same holds for {', '.join(found[1:])}" if found[1:] else ""


def _source(copy: Copy, statement: Statement, node: Definition) -> str:
    """The source of the grader in `node`."""
    closure, module, grader = copy.main, copy.main.module, copy.main.user
    text = module.slice(statement, node)
    names = names_of(node, text, module.features)
    refuse_imports(node, Need("", grader), statement.text.label, closure.allowed, closure.refused)
    refuse_own_module(node, Need("", grader))
    refuse_module_name(node, Need("", grader), module.globals.get("__name__"))
    copy.follow(names, statement, node)
    source = rendered(copy, statement, node)
    _check(source, grader)
    return source


def _explain(found: list[Difference], name: str) -> str:
    first: dict[str, Difference] = {}
    for each in found:
        first.setdefault(each.name, each)
    shown = "; ".join(map(str, list(first.values())[:_SHOWN]))
    return (
        f"{name} may score differently once it is uploaded: {shown}. Statements at module level are uploaded if they "
        "name what the grader uses, and this value was set elsewhere, perhaps by a call of the grader itself, or read "
        "from a file, and a sandbox has none of yours. Set what it needs by such a statement, and write what it reads "
        f"into the source. gradebox.grader_source({name}) shows the copy"
    )


def _refuse_lost_decorators(fn: object, grader: FunctionType, module: Module, node: Definition) -> None:
    name = grader.__name__
    rebound = module.binders.get(name, [])[-1:]
    is_def = bool(rebound) and any(part is node for part in ast.walk(rebound[0].node))
    if fn is not grader and not (is_def and node.decorator_list and module.globals.get(name) is fn):
        raise SourceError(
            f"{name} was wrapped by a call outside of its `def`, which would stay behind: "
            f"write the wrapper as a decorator, in the line above `async def {name}`"
        )


def _check(source: str, name: str) -> None:
    size = len(source.encode())
    if size > MAX_SOURCE_BYTES:
        raise too_long(name, size)
    try:
        compile(source, "<grader>", "exec", dont_inherit=True)
    except SyntaxError as error:
        raise SourceError(
            f"{name} and what it uses are no Python without the notebook around them ({error}): "
            "compute what needs `await` or a magic in another cell, as a constant"
        ) from None
