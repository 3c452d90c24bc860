"""The fields of a thread that a judge is shown, by name.

`completion` (or `response`) is the last turn, `question` the last user turn, `conversation` all turns before the
completion. Any other name is a metadata field, with or without the prefix `metadata.`, and may be a dotted path; a
space may replace an underscore.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from json import JSONEncoder
from math import isfinite
from typing import Any

from gradebox.judges.criterion import ContextFields
from gradebox.thread import StringThread, completion_of
from gradebox.thread_forms import METADATA

COMPLETION = "completion"
_encode = JSONEncoder(ensure_ascii=False).encode
MISSING = object()
"""Stands for the value of a field that is absent."""


def listed(turns: list[tuple[str, str]]) -> str:
    """Format turns for a judge."""
    return "\n\n".join(f"[{role}]\n{content}" for role, content in turns)


def question_of(thread: StringThread) -> str | None:
    """Return the last user turn before the completion; None if there is none."""
    return next((content for role, content in reversed(thread.messages()) if role == "user"), None)


def value_of(thread: StringThread, field: str) -> Any:
    """Return the value of a field.

    Raises:
        ValueError: the thread has no such field, or it is null.
    """
    if field in (COMPLETION, "response"):
        return completion_of(thread)
    if field == "conversation":
        return listed(thread.messages())
    if field == "question":
        if (question := question_of(thread)) is None:
            raise ValueError("the thread has no turn of the user, so there is no question: name another field")
        return question
    return _in_metadata(thread.metadata, field)


def text_of(thread: StringThread, field: str) -> str:
    """Like `value_of`, as text: a value that is not a string is returned as JSON."""
    value = value_of(thread, field)
    return value if isinstance(value, str) else _encode(value)


def context_of(thread: StringThread, fields: ContextFields) -> dict[str, str]:
    """Return the fields shown beside the judged text, by displayed name.

    Raises:
        ValueError: the thread lacks one of the fields.
    """
    if fields is None:
        before = thread.messages()
        return {"conversation": listed(before)} if before else {}
    if isinstance(fields, str):
        fields = [fields]
    named = dict(fields) if isinstance(fields, Mapping) else {field: field for field in fields}
    return {shown: text_of(thread, field) for shown, field in named.items()}


def check_names(setting: str, fields: ContextFields) -> None:
    """Raise ValueError if these are not names of fields."""
    if fields is None:
        return
    if isinstance(fields, Mapping):
        given = [*fields, *fields.values()]
    else:
        given = [fields] if isinstance(fields, str) or not isinstance(fields, Iterable) else list(fields)
    for name in given:
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ValueError(f"{setting}= takes names of fields, and {name!r:.80} is none")


def number_at(metadata: Any, field: str) -> float | None:
    """Return the number in a metadata field; None if there is none, or it is not finite."""
    return number_of(found_at(metadata, field.removeprefix(METADATA)))


def number_of(value: Any) -> float | None:
    """Return a value as a number; None if it is none, or not finite."""
    try:
        number = float(value) if isinstance(value, int | float) else None
    except OverflowError:  # an integer of hundreds of digits
        return None
    return number if number is not None and isfinite(number) else None


def _in_metadata(metadata: Any, field: str) -> Any:
    path = field.removeprefix(METADATA)
    found = found_at(metadata, path)
    if found is MISSING or found is None:
        there = [*map(str, metadata)] if isinstance(metadata, Mapping) else []
        near = get_close_matches(path, there, 1, 0.6)
        meant = f": is {near[0]!r} meant?" if near else f": it has {', '.join(sorted(there))[:200] or 'none'}"
        raise ValueError(f"the thread's metadata has no field {path!r:.80}{meant}")
    return found


def found_at(metadata: Any, path: str) -> Any:
    """The value of the member with this name; without one, the value at the dotted path."""
    found = _at(metadata, path)
    if found is MISSING:
        found = metadata
        for name in path.split("."):
            found = _at(found, name)
    return found


def _at(value: Any, name: str) -> Any:
    if not isinstance(value, Mapping):
        return MISSING
    return value.get(name, value.get(name.replace(" ", "_"), MISSING))
