"""Converts datasets' values to JSON types: for rows with `columns=`, and for the arguments of trainers."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from math import isinf, isnan
from typing import Any
from uuid import UUID

from gradebox.thread_forms import NO_CONTENT

_DEEPEST = 64  # levels, the same limit as for a thread


class NotPlain(Exception):
    """A value that JSON cannot represent, such as an image. The message describes it."""


def metadata(columns: Mapping[Any, object], only: Collection[str] | None = None, row: int | None = None) -> Any:
    """Convert the columns to metadata; only those in `only`, if it is given.

    Raises:
        ValueError: JSON cannot hold a value. The message names its column, and its row if `row` is given.
    """
    found = {}
    for name, value in columns.items():
        if only is None or name in only:
            place = f"column {str(name)!r}" if row is None else f"row {row}, column {str(name)!r}"
            found[str(name)] = plain_in(value, place)
    return found


def members(
    columns: Mapping[Any, object], only: Collection[str] | None = None, row: int | None = None
) -> dict[str, Any]:
    """Convert the columns to members of a thread, as for rows of a dataset: a column `id` is the id, an object in a
    column `metadata` is merged into the metadata, and the others are metadata. Raises as `metadata` does.
    """
    found = metadata(columns, only, row)
    identity = found.pop("id", None)
    own = found.get("metadata")
    if own is None or isinstance(own, dict):
        found.pop("metadata", None)
        found |= own or {}
    return {"metadata": found} if identity is None else {"metadata": found, "id": identity}


def plain_in(value: object, place: str) -> Any:
    """Convert the value to JSON types. Raises ValueError, whose message describes the value and names `place`."""
    try:
        return plain(value)
    except NotPlain as error:
        raise ValueError(
            f"{place}: it holds {error}, which JSON cannot hold: convert it to text or numbers, or leave the column "
            'out; of those that a trainer passes, name the others, as in columns=["answer"]'
        ) from error


def plain(value: Any, deep: int = 0) -> Any:
    """Convert the value to JSON types: arrays to lists, NumPy's records and pydantic's models to dicts, dates and times
    to ISO 8601, a Decimal or UUID to its text, and NaN, which marks a missing value, to None. Raises NotPlain.
    """
    if deep > _DEEPEST:
        raise NotPlain(f"more than {_DEEPEST} levels")
    if isinstance(value, float):
        if isinf(value):
            raise NotPlain("infinity")
        return None if isnan(value) else value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Mapping):
        if keys := [name for name in value if not isinstance(name, str)]:
            raise NotPlain(f"a dict with the key {keys[0]!r:.80}, which is no text")
        return {name: plain(part, deep + 1) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part, deep + 1) for part in value]
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat() if value == value else None  # pandas' NaT (missing) differs from itself
    if isinstance(value, Decimal):
        if value.is_infinite():
            raise NotPlain("infinity")
        return None if value.is_nan() else str(value)
    if isinstance(value, UUID):
        return str(value)
    if callable(getattr(value, "tolist", None)):
        return _of_array(value, deep)
    if callable(dump := getattr(value, "model_dump", None)):
        return plain(dump(mode="json"), deep + 1)
    raise NotPlain(f"a value of type {type(value).__name__}")


def _of_array(value: Any, deep: int) -> Any:
    """Convert a NumPy array, a tensor, or a number, time or record of NumPy."""
    dtype = getattr(value, "dtype", None)
    kind, names = getattr(dtype, "kind", None), getattr(dtype, "names", None)
    if kind == "m":
        raise NotPlain("a value of type timedelta64")
    if (kind == "M" or names) and value.shape:
        return [plain(part, deep + 1) for part in value]
    if names:
        return {name: plain(value[name], deep + 1) for name in names}
    if kind == "M":
        return _time(value)
    found = value.tolist()
    if type(found) is type(value):  # such as a longdouble, which Python has no number for
        raise NotPlain(f"a value of type {type(value).__name__}")
    return plain(found, deep + 1)


def _time(value: Any) -> Any:
    """Convert a datetime64, whose `tolist` is an integer if it is finer than microseconds, or beyond Python's years."""
    found = value.tolist()
    if isinstance(found, int) and (rounded := value.astype("datetime64[us]")) == value:
        found = rounded.tolist()
    return str(value) if isinstance(found, int) else plain(found)


_TURN = ("role", "content")
_MEMBERS = ("tool_calls", "tool_call_id", "name", "function_call", "refusal", "reasoning_content")  # of objects
_INSTEAD = ("tool_calls", "function_call", "refusal")  # a message with one of them needs no content


def messages(turns: Sequence[Any], place: str) -> list[dict[str, Any]]:
    """Convert messages, given as dicts with any members, or as objects with their tool calls and reasoning. Of pictures
    and the like only the type is kept.

    Raises:
        ValueError: JSON cannot hold a value of a message, or a message has no member "content"; the error names the
            place.
    """
    return [_message(turn, f"{place}[{number}]") for number, turn in enumerate(turns)]


def _message(turn: Any, place: str) -> dict[str, Any]:
    if not _has(turn, "content") and not any(_get(turn, name) for name in _INSTEAD):
        raise ValueError(f"{place}: {NO_CONTENT}")
    content = _get(turn, "content")  # null if a model wrote nothing but its reasoning
    if content is None and not isinstance(_get(turn, "refusal"), str):
        content = ""
    found: dict[str, Any] = {"role": str(_get(turn, "role")), "content": _content(content, place)}
    for name in turn if isinstance(turn, Mapping) else _MEMBERS:
        if name not in _TURN and (value := _get(turn, name)) is not None:
            found[name] = plain_in(value, f"{place}.{name}")
    return found


def _content(content: Any, place: str) -> Any:
    """The text; or the parts, if some are not text."""
    if content is None or isinstance(content, str):
        return content
    parts = [part if isinstance(part, str) else _part(part, place) for part in content]
    texts = [text for part in parts if isinstance(text := part if isinstance(part, str) else part.get("text"), str)]
    return "".join(texts) if len(texts) == len(parts) else parts


def _part(part: Any, place: str) -> dict[str, Any]:
    """A part with its type and text only. The rest is pixels or audio, which threads represent by a mark."""
    kind, text = _get(part, "type"), _get(part, "text")
    return {"type": str(kind)} if text is None else {"type": str(kind), "text": plain_in(text, f"{place}.content")}


def _has(value: Any, name: str) -> bool:
    return name in value if isinstance(value, Mapping) else hasattr(value, name)


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
