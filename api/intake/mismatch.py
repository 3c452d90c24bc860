"""Messages for values that do not match a type of msgspec, with what is allowed instead, and without regexes."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import inspect

_PLACE = re.compile(r" - at `\$([^`]*)`$")
_RANGE = re.compile(r"Expected `(?:int|float)` (<=|>=|<|>) ([0-9.e+-]+)")
_WORDS = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than"}
_STEP = re.compile(r"\.([^.\[]+)|\[[^\]]*\]")
_CHARACTERS = 400  # of a value that is quoted


def explained(error: msgspec.ValidationError, kind: Any, given: Callable[[str], str] = lambda _: "") -> str:
    """The message of an error that decoding or converting to `kind` raised. `given` shows a member that was sent."""
    message = str(error)
    place = _PLACE.search(message)
    path = [step.group(1) for step in _STEP.finditer(place[1])] if place else []
    said = message[: place.start()] if place else message
    where = place[0] if place else ""
    if said.startswith("Invalid enum value "):
        values = [value for found in _reached(inspect.type_info(kind), path) for value in _values(found)]
        one_of = "one of " if len(values) > 1 else ""
        said = f"{said[:_CHARACTERS]}: write {one_of}{', '.join(map(repr, values))}"
    elif said.startswith("Expected `str` matching regex "):
        described = (_description(found) for found in _reached(inspect.type_info(kind), path))
        said = next((f"Expected {words}" for words in described if words), said)
    elif said.startswith("Object contains unknown field "):
        structs = [one for one in _reached(inspect.type_info(kind), path) if isinstance(one, inspect.StructType)]
        known = ", ".join(field.encode_name for one in structs for field in one.fields)
        said = f"{said[:_CHARACTERS]}: it may have {known}"
    elif (bound := _RANGE.fullmatch(said)) and len(path) == 1 and path[0]:
        described = (_description(found) for found in _reached(inspect.type_info(kind), path))
        why = next((f" ({words})" for words in described if words), "")
        sent = given(path[0])[:_CHARACTERS]
        what = f"{path[0]} is {sent}, and" if sent else path[0]
        return f"{what} must be {_WORDS[bound[1]]} {float(bound[2]):.15g}{why}"
    return said + where


def _reached(kind: inspect.Type, path: Sequence[str | None]) -> Iterator[inspect.Type]:
    """The types to which a path of members leads; a step of a list or dict is None."""
    if isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from _reached(one, path)
    elif not path:
        yield kind
    elif isinstance(kind, inspect.Metadata):
        yield from _reached(kind.type, path)
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            if field.encode_name == path[0]:
                yield from _reached(field.type, path[1:])
    elif isinstance(kind, inspect.CollectionType):
        yield from _reached(kind.item_type, path[1:])
    elif isinstance(kind, inspect.DictType):
        yield from _reached(kind.value_type, path[1:])


def _values(kind: inspect.Type) -> Sequence[str | int]:
    return [value for value in kind.values if value is not None] if isinstance(kind, inspect.LiteralType) else ()


def _description(kind: inspect.Type) -> str | None:
    schema = kind.extra_json_schema if isinstance(kind, inspect.Metadata) else None
    return (schema or {}).get("description")
