"""Values of datasets as JSON has them."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, time
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from typing import Any
from uuid import UUID

_log = logging.getLogger("gradebox")


class NotPlain(Exception):
    """A value that JSON has no word for, such as an image. The message is its class."""


def metadata(columns: Mapping[Any, object]) -> dict[str, Any]:
    """The columns that JSON can hold. One that is left out for its class is logged, once."""
    found = {}
    for name, value in columns.items():
        try:
            found[str(name)] = plain(value)
        except NotPlain as error:
            _tell(str(name), str(error))
    return found


def plain(value: Any) -> Any:
    """The value as JSON has it: arrays as lists, NaN and infinity as None, dates in ISO 8601, a
    Decimal or UUID as its text. Raises NotPlain.
    """
    if isinstance(value, float) and not isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    if callable(tolist := getattr(value, "tolist", None)):  # of NumPy and of tensors
        return plain(tolist())
    raise NotPlain(type(value).__name__)


@lru_cache(maxsize=1000)
def _tell(name: str, kind: str) -> None:
    _log.warning("metadata[%r] is left out of threads: it holds a %s, for which JSON has no word", name, kind)


_MEMBERS = ("tool_calls", "tool_call_id", "name")  # of messages, besides role and content


def messages(turns: Sequence[Any]) -> list[dict[str, Any]]:
    """Messages as dicts or as objects, with their calls of tools. Of contents in parts, the text alone."""
    return [_message(turn) for turn in turns]


def _message(turn: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"role": str(_get(turn, "role")), "content": _text(_get(turn, "content"))}
    for name in _MEMBERS:
        if (value := _get(turn, name)) is not None:
            with suppress(NotPlain):
                found[name] = plain(value)
    return found


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part if isinstance(part, str) else str(_get(part, "text") or "") for part in content or ())


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
