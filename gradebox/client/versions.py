"""The content of a grader's version: checks of arguments, and the fields of requests."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from gradebox.client.calls import collection, grader_calls
from gradebox.client.calls.call import Call
from gradebox.client.thread_line import Thread
from gradebox.errors import GradeboxError, SourceError
from gradebox.options import check_known
from gradebox.schemas import KEY_PATTERN, GraderRecord, Isolation, WrittenKind

if TYPE_CHECKING:
    from gradebox.judges import Criterion, CriterionItem

Ask = Literal["real", "stand-in"]
"""What answers the asks of the test run: the models and endpoints of the project, or the smallest replies."""

Function = Callable[..., object] | str
"""A grader function, which is uploaded with the parts of its module that it uses; or source as a string."""


ONE_OF = "give the grader as a function, as in put('has-answer', grade), or as a kind= with its config="
"""The error message for a call with a function and a kind, or a kind or config without the other."""


class GraderOptions(TypedDict, total=False):
    """The arguments of `create.function` besides a key and a function."""

    name: str | None
    description: str | None
    isolation: Isolation | None
    timeout_s: float | None
    memory_mb: int | None
    threads: Sequence[Thread] | None
    environment: str | None
    ask: Ask | None


class UpdateOptions(GraderOptions, total=False):
    """The arguments of an update besides a function: those above, or a kind and its settings instead of a function."""

    kind: WrittenKind | None
    config: Mapping[str, Any] | None


def source_of(fn: Function, environment: str | None = None) -> str:
    """The source to upload. With an environment, the function may import packages.

    Raises:
        SourceError: the function cannot stand alone, or the source looks like a path.
    """
    if isinstance(fn, str):
        if fn.endswith(".py") and "\n" not in fn:
            raise SourceError(f"{fn!r} is a path and no source: give what it holds, Path({fn!r}).read_text()")
        return fn
    from gradebox.source import extract, imports  # imported late, since scoring does not need it

    return extract(fn, allowed=imports.may_be_package if environment else imports.nothing)


def check_isolation(isolation: str | None) -> None:
    """Raises GradeboxError if there is no such isolation."""
    if isolation is not None and isolation not in get_args(Isolation):
        raise GradeboxError(f"isolation={isolation!r} is none of {', '.join(map(repr, get_args(Isolation)))}")


def check_key(key: str) -> None:
    """Raises GradeboxError if the key is not valid."""
    if not isinstance(key, str) or not re.match(KEY_PATTERN, key):
        raise GradeboxError(f"the key {key!r} is not valid: write 1 to 64 of a-z 0-9 . _ -, first a letter or digit")


def one_of(fn: Callable[..., object] | None, source: str | None) -> Function:
    """Returns the given one of the two. Raises TypeError if both or none are given."""
    if fn is not None and source is None:
        return fn
    if source is not None and fn is None:
        return source
    raise TypeError("give the grader as a function, fn=, or as its source, source=")


def update_call(
    project: str,
    key: str,
    fn: Function | None,
    if_version: int | None,
    options: UpdateOptions,
    known: GraderRecord | None,
) -> Call[GraderRecord]:
    """The request that gives a grader a new version, or only a name or a description.

    Without a function and a kind, the service uses those of the newest version. If that is the version of `known`, no
    warnings are issued.

    Raises:
        GradeboxError: the function cannot stand alone, or there is no such isolation.
        TypeError: a kind without its config or with a function, or `if_version` without a new version.
    """
    check_source(fn, options.get("kind"), options.get("config"))
    if fn is None and all(value is None for name, value in options.items() if name not in ("name", "description")):
        if if_version is not None:
            raise TypeError("if_version= is for a new version: a name or a description belongs to none")
        return collection.graders.patch(project, key, options)
    check_isolation(options.get("isolation"))
    source = None if fn is None else source_of(fn, options.get("environment"))
    threads = options.pop("threads", None)
    return grader_calls.put_grader(project, key, {**options, "source": source}, threads, if_version, known)


def check_options(options: Mapping[str, object], creates: bool = False) -> None:
    """Raises TypeError if graders do not have one of the options. `creates`: whether they are for a new grader."""
    check_known(options, (GraderOptions if creates else UpdateOptions).__annotations__, "a grader")


def check_source(fn: Function | None, kind: WrittenKind | None, config: Mapping[str, Any] | None) -> None:
    """Raises TypeError if a kind has no config, a config has no kind, or a kind is combined with a function."""
    if (kind is None) != (config is None) or (fn is not None and kind is not None):
        raise TypeError(ONE_OF)


def as_json(one: "str | Mapping[str, Any] | Criterion | CriterionItem") -> Any:
    """The JSON form of a criterion, or of an item that has one."""
    if isinstance(one, str):
        return one
    if isinstance(one, Mapping):
        return {name: as_json(member) if name == "criterion" else member for name, member in one.items()}
    return one.as_config()
