"""Checks of the completion."""

from collections.abc import Callable, Mapping
from typing import Any

from gradebox.checks.check import ThreadCheck, bounded, count_of, flag_of, quoted, text_of
from gradebox.same_json import same
from gradebox.sync_call import refuse_async, sync_call
from gradebox.thread import StringThread, completion_of

_LARGE = 10**5000


def contains(text: str, ignore_case: bool = False) -> ThreadCheck:
    """The text is part of the completion."""
    return _found("contains", text, ignore_case, wanted=True)


def not_contains(text: str, ignore_case: bool = False) -> ThreadCheck:
    """The text is not part of the completion."""
    return _found("not_contains", text, ignore_case, wanted=False)


def matches(pattern: str) -> ThreadCheck:
    """The regular expression is found in the completion."""
    return _searched("matches", pattern, wanted=True)


def not_matches(pattern: str) -> ThreadCheck:
    """The regular expression is not found in the completion."""
    return _searched("not_matches", pattern, wanted=False)


def starts_with(text: str) -> ThreadCheck:
    """The completion starts with the text."""
    text_of("starts_with", "text", text)

    def problem(thread: StringThread) -> str | None:
        said = completion_of(thread)
        return None if said.startswith(text) else f"expected a start of {quoted(text)}, found {quoted(said)}"

    return ThreadCheck("starts_with", {"text": text}, problem)


def ends_with(text: str) -> ThreadCheck:
    """The completion ends with the text."""
    text_of("ends_with", "text", text)

    def problem(thread: StringThread) -> str | None:
        said = completion_of(thread)
        found = quoted(said[-200:])
        return None if said.endswith(text) else f"expected an end of {quoted(text)}, found an end of {found}"

    return ThreadCheck("ends_with", {"text": text}, problem)


def equals(value: Any) -> ThreadCheck:
    """The completion is this text; or, if the value is not a string, the completion is JSON equal to this value.
    Nothing is trimmed; 1 and 1.0 are equal, 1 and true are not.

    Raises:
        ValueError: the value is not a JSON value.
    """
    if not (value is None or isinstance(value, str | bool | int | float | list | tuple | dict)):
        raise ValueError(f"equals(value=) takes a text or another value of JSON, and got {value!r:.80}")

    def problem(thread: StringThread) -> str | None:
        said = completion_of(thread)
        if isinstance(value, str):
            return None if said == value else f"expected {quoted(value)}, found {quoted(said)}"
        try:
            is_same = same(_loaded(said), value)
        except (ValueError, RecursionError):  # it is not JSON, or nested more deeply than `value`
            is_same = False
        return None if is_same else f"expected JSON that says {quoted(value)}, found {quoted(said)}"

    return ThreadCheck("equals", {"value": value}, problem)


def satisfies(fn: Callable[[str], object]) -> ThreadCheck:
    """The function of the completion is true. An exception that it raises is an error of the grader, not a failure."""
    if not callable(fn):
        raise ValueError(f"satisfies(fn=) takes a function of the completion, and got {fn!r:.80}")
    refuse_async("satisfies(fn=)", fn)

    def problem(thread: StringThread) -> str | None:
        said = completion_of(thread)
        is_satisfied = sync_call("satisfies(fn=)", fn, said)
        return None if is_satisfied else f"expected what satisfies {quoted(fn)}, found {quoted(said)}"

    return ThreadCheck("satisfies", {"fn": fn}, problem)


def max_words(n: int) -> ThreadCheck:
    """The completion has at most `n` words: parts separated by white space."""
    count_of("max_words", "n", n)
    return bounded("max_words", n, "words", lambda thread: len(completion_of(thread).split()))


def min_words(n: int) -> ThreadCheck:
    """The completion has at least `n` words."""
    count_of("min_words", "n", n)
    return bounded("min_words", n, "words", lambda thread: len(completion_of(thread).split()), is_most=False)


def max_characters(n: int) -> ThreadCheck:
    """The completion has at most `n` characters."""
    count_of("max_characters", "n", n)
    return bounded("max_characters", n, "characters", lambda thread: len(completion_of(thread)))


def is_json() -> ThreadCheck:
    """The completion is JSON, with nothing around it. JSON that is nested too deeply to be read is an error."""

    def problem(thread: StringThread) -> str | None:
        said = completion_of(thread)
        _, wrong = _parsed(said)
        return None if wrong is None else f"expected JSON, found {quoted(said)}: {wrong}"

    return ThreadCheck("is_json", {}, problem)


def fits_schema(schema: Mapping[str, Any]) -> ThreadCheck:
    """The completion is JSON that fits a JSON Schema, with nothing around it. JSON that is nested too deeply to be read
    is an error.

    Raises:
        ValueError: the schema is invalid, or has an unsupported keyword (`gradebox.asks.schema` lists the supported
            ones).
    """
    from gradebox.asks.schema import checked  # imported here: most graders do not need the package
    from gradebox.asks.schema import problem as unfit

    checked(schema)

    def problem(thread: StringThread) -> str | None:
        said = completion_of(thread)
        found, wrong = _parsed(said)
        wrong = wrong or unfit(found, schema)
        return None if wrong is None else f"expected JSON that fits the schema: {wrong[:400]}; found {quoted(said)}"

    return ThreadCheck("fits_schema", {"schema": dict(schema)}, problem)


def _found(name: str, text: str, ignore_case: bool, wanted: bool) -> ThreadCheck:
    text_of(name, "text", text)
    sought = text.casefold() if flag_of(name, "ignore_case", ignore_case) else text

    def problem(thread: StringThread) -> str | None:
        said = completion_of(thread)
        if (sought in (said.casefold() if ignore_case else said)) is wanted:
            return None
        return f"expected {'' if wanted else 'no '}{quoted(text)} in the completion, found {quoted(said)}"

    return ThreadCheck(name, {"text": text, **({"ignore_case": True} if ignore_case else {})}, problem)


def _searched(name: str, pattern: str, wanted: bool) -> ThreadCheck:
    import re  # imported here: a cold sandbox may not need it

    text_of(name, "pattern", pattern)
    try:
        search = re.compile(pattern).search
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{name}(pattern=) takes a regular expression, and {pattern!r:.80} is none: {error}") from None

    def problem(thread: StringThread) -> str | None:
        said = completion_of(thread)
        found = search(said)
        if (found is not None) is wanted:
            return None
        if found is None:
            return f"expected a match of {quoted(pattern)}, found {quoted(said)}"
        return f"expected no match of {quoted(pattern)}, found {quoted(found.group())} at character {found.start()}"

    return ThreadCheck(name, {"pattern": pattern}, problem)


def _parsed(text: str) -> tuple[Any, str | None]:
    """The parsed JSON value, or the parse error.

    Raises:
        ValueError: it is nested too deeply to be read, so whether it is JSON is not known.
    """
    try:
        return _loaded(text), None
    except ValueError as error:
        return None, str(error)
    except RecursionError:
        if not text.rstrip().endswith(("]", "}")):
            return None, "an array or object in it is not closed"
        raise ValueError(
            "the completion nests arrays or objects too deeply for Python's JSON parser, so whether it is JSON is not "
            "known: write a function of your own for it, `satisfies(fn)`"
        ) from None


def _loaded(text: str) -> Any:
    """The JSON value. Raises ValueError if it is not JSON, and RecursionError if it is nested too deeply."""
    import json

    return json.loads(text, parse_constant=_no_constant, parse_int=_integer)


def _integer(digits: str) -> int:
    """The integer; 10**5000 in place of one with more digits than Python converts, which takes long. No setting of a
    check has so many digits, so comparisons are right.
    """
    try:
        return int(digits)
    except ValueError:
        return -_LARGE if digits.startswith("-") else _LARGE


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
