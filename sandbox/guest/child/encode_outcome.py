"""Encodes what `grade` returned or raised as a record. Calls no code of the grader except `str()` of its exception."""

import re
import sys
from collections.abc import Callable
from json import dumps
from typing import Any

from gradebox.score import (
    DETAILS_BYTES,
    DETAILS_DEPTH,
    MOST_VALUES,
    NotApplicable,
    Score,
    is_name,
    is_too_deep,
)
from sandbox.guest.protocol.fields import (
    CAUSE,
    DETAILS,
    MAX_CAUSE,
    MESSAGE,
    REASON,
    REPLY,
    TRACE,
    VALUES,
    encode,
    pack_values,
)
from sandbox.guest.protocol.records import BAD_RETURN, EXCEPTION, MEMORY, MODEL, NOT_APPLICABLE
from validators.exception_text import explain, leaves, name_of

_INFINITY = float("inf")
# These read the slots of a subclass of `Score`, whose attributes may be its own code.
_reason: Callable[[object], object] = Score.__dict__["reason"].__get__
_values: Callable[[object], Any] = Score.__dict__["values"].__get__
_details: Callable[[object], object] = Score.__dict__["details"].__get__


class BadReturn(Exception):
    """The return value of `grade` is no finite number, or a part of it is not allowed."""


def read_score(value: object) -> float:
    """Reads `value` as a finite number, by exact type and base slots, so that a subclass cannot run code.

    Raises:
        BadReturn: it is no finite number; the message describes the value and the remedy.
    """
    kind = type(value)
    if kind is float:
        score: float = value  # type: ignore[assignment]  # checked by identity, faster than isinstance
    elif issubclass(kind, float):
        score = float.__float__(value)  # type: ignore[arg-type]  # issubclass holds
    elif issubclass(kind, int):
        try:
            score = int.__float__(value)  # type: ignore[arg-type]  # issubclass holds
        except OverflowError:
            raise BadReturn("`grade` returned a whole number that is too large for a float") from None
    else:
        raise BadReturn(_what_it_is(kind))
    if not -_INFINITY < score < _INFINITY:
        raise BadReturn(f"`grade` returned {score}, and a score must be finite")
    return score


def read_return(value: object, most_bytes: int, details_bytes: int) -> tuple[float, list[tuple[int, bytes]]]:
    """Reads the score and the fields of a record: a reason of `most_bytes` and details of `details_bytes` at most.

    Raises:
        BadReturn: the value is no finite number, or a `Score` has a part that is not allowed.
    """
    score = read_score(value)
    if not issubclass(type(value), Score):
        return score, []
    return score, read_reason(value, most_bytes) + read_values(value) + read_details(value, details_bytes)


def read_reason(value: object, most_bytes: int) -> list[tuple[int, bytes]]:
    """Reads the reason of a `gradebox.Score`, as fields of a record.

    Raises:
        BadReturn: a subclass of `Score` hides it.
    """
    reason = value.reason if type(value) is Score else _part(value, _reason, "reason")
    if reason is None:
        return []
    return [(REASON, encode(reason if type(reason) is str else _read_text(reason), most_bytes))]


def read_values(value: object) -> list[tuple[int, bytes]]:
    """Reads the values of a `gradebox.Score`, as fields of a record. `Score` checked them when it was created.

    Raises:
        BadReturn: they were changed since then, and are not valid any more.
    """
    values = value.values if type(value) is Score else _part(value, _values, "values")
    if values is None:
        return []
    if type(values) is not dict or len(values) > MOST_VALUES or not all(map(_is_value, values, values.values())):
        raise BadReturn("`grade` changed the values of its Score to what is no value: give them to Score(…, values=…)")
    return [(VALUES, pack_values(values))]


def read_details(value: object, most_bytes: int) -> list[tuple[int, bytes]]:
    """Reads the details of a `gradebox.Score`, as fields of a record.

    Raises:
        BadReturn: JSON cannot represent them, or they take more than `most_bytes`.
    """
    return _details_of(value.details if type(value) is Score else _part(value, _details, "details"), most_bytes)


def _part(value: object, slot: Callable[[object], Any], name: str) -> Any:
    """Reads a slot of a subclass of `Score`; None if the value is none."""
    try:
        return slot(value)
    except TypeError:
        return None
    except AttributeError:
        kind = name_of(type(value))[:100]
        raise BadReturn(
            f"the {name} of the `{kind}` that `grade` returned cannot be read: make it by `Score.__new__`, and give "
            f"its class no attribute `{name}`"
        ) from None


def _details_of(details: object, most_bytes: int = DETAILS_BYTES) -> list[tuple[int, bytes]]:
    if details is None:
        return []
    if type(details) is not dict:
        raise BadReturn("the details of a Score are a dict: Score(…, details={…})")
    try:
        text = dumps(details, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        try:
            data = text.encode()
        except UnicodeEncodeError:
            data = _without_halves(text).encode()
        is_deep = len(data) <= most_bytes and is_too_deep(details)
    except Exception as error:  # noqa: BLE001  # the contents are the grader's, and may raise anything
        raise BadReturn(f"JSON cannot hold the details of the Score ({type(error).__name__}: {error!s:.200})") from None
    if len(data) > most_bytes:
        raise BadReturn(f"the details of the Score take {len(data)} bytes as JSON, and may take {most_bytes}")
    if is_deep:
        raise BadReturn(f"the details of the Score are nested more than {DETAILS_DEPTH} levels deep")
    return [(DETAILS, data)]


def _without_halves(json: str) -> str:
    """Replaces each half of a surrogate pair by its escape as text, as `encode` does in a reason."""
    return re.sub("[\ud800-\udfff]", lambda half: rf"\\u{ord(half[0]):x}", json)


def _is_value(name: object, number: object) -> bool:
    return type(name) is str and is_name(name) and type(number) is float and -_INFINITY < number < _INFINITY


def read_exception(error: BaseException, text: str, most_bytes: int) -> tuple[int, list[tuple[int, bytes]]]:
    """Returns the kind of record, and its fields, for an exception that `grade` raised."""
    if isinstance(error, BadReturn):
        return BAD_RETURN, [(MESSAGE, encode(str(error), most_bytes))]
    found = list(leaves(error))
    not_applicable = found[0] if all(type(each) is NotApplicable for each in found) else None
    failed = not_applicable or _failed_ask(found)
    try:
        details = [] if failed is None else _details_of(getattr(failed, "details", None))
    except BadReturn as bad:
        return BAD_RETURN, [(MESSAGE, encode(str(bad), most_bytes))]
    if not_applicable is not None:
        why = getattr(not_applicable, "reason", None)
        reason = "" if why is None else _read_text(why)
        return NOT_APPLICABLE, [(MESSAGE, encode(reason, most_bytes)), *details]
    explained = explain(error, text, most_bytes)
    if failed is not None:
        return MODEL, [*_fields_of(failed, most_bytes), (TRACE, encode(explained.trace, most_bytes)), *details]
    where = f" (line {explained.line})" if explained.line else ""
    message = explained.message + where + explained.cause
    fields = [(MESSAGE, encode(message, most_bytes)), (TRACE, encode(explained.trace, most_bytes))]
    return MEMORY if type(error) is MemoryError else EXCEPTION, fields


def _failed_ask(found: list[BaseException]) -> BaseException | None:
    """If all exceptions are a `ModelError`, the first of them that is final, or else the first."""
    errors = sys.modules.get("gradebox.asks.errors")
    if errors is None or not all(issubclass(type(each), errors.ModelError) for each in found):
        return None
    return next((each for each in found if not getattr(each, "retryable", False)), found[0])


def _fields_of(error: BaseException, most_bytes: int) -> list[tuple[int, bytes]]:
    kind, message, retryable, reply = (getattr(error, name, "") for name in ("kind", "message", "retryable", "reply"))
    fields = [
        (MESSAGE, encode(_text(message), most_bytes)),
        (CAUSE, bytes([retryable is True]) + encode(_text(kind), MAX_CAUSE - 1)),
    ]
    return [*fields, (REPLY, encode(reply, most_bytes))] if type(reply) is str and reply else fields


def _text(value: object) -> str:
    return str.__str__(value) if issubclass(type(value), str) else ""


def _read_text(reason: object) -> str:
    """Reads a reason without calls of a subclass of `str`. If it is no text, the score stays, and this says so."""
    kind = type(reason)
    if issubclass(kind, str):
        return str.__str__(reason)
    return f"(the reason is of type `{name_of(kind)[:100]}`, which is no text: write str() around it)"


def _what_it_is(kind: type) -> str:
    name = name_of(kind)[:100]
    if name == "NoneType":
        return "`grade` returned None: is a `return` missing on some path? Return a float, 0.0 for a bad completion"
    if name == "coroutine":
        return "`grade` returned a coroutine: an `await` is missing"
    if name == "str":
        return "`grade` returned a string: convert it, `return float(...)`"
    if name in ("dict", "tuple"):
        return (
            f"`grade` returned a `{name}`, and a score is an int or a float: `return float(...)`, or with a reason "
            '`return Score(1.0, reason="why")` (`from gradebox import Score`)'
        )
    if name in ("bool", "int", "float"):
        return f"`grade` returned a `{name}` that is not Python's own, such as NumPy's: convert it, `return float(...)`"
    return f"`grade` returned an object of type `{name}`, and a score is an int or a float: `return float(...)`"
