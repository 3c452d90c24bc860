"""Extracts the completions from a line of threads."""

import json
from contextlib import suppress
from typing import Any

import msgspec

from gradebox import group_forms, thread_forms
from runtime import slow_numbers

_LISTS = ("messages", "turns", "completion")


def completion(line: bytes) -> str | None:
    """The completion of a thread. None for a group, an invalid thread, and if the last turn is not the assistant's."""
    try:
        value = value_of(line)
        return None if type(value) is dict and thread_forms.is_group(value) else _last_completion(value)
    except (ValueError, RecursionError):  # it results in an outcome of kind `bad_input`
        return None


def completions(line: bytes) -> list[str]:
    """The completion of a thread, or the completions of a group's members that have one."""
    try:
        value = value_of(line)
        is_group = type(value) is dict and thread_forms.is_group(value)
        found = [_last_completion(each) for each in (group_forms.members(value) if is_group else [value])]
    except (ValueError, RecursionError):  # as above
        return []
    return [said for said in found if said is not None]


def _last_completion(value: Any) -> str | None:
    """Parses only the last turn, because there may be very many. Raises ValueError if the value is not a thread."""
    if type(value) is dict:
        forms = [(name, value[name]) for name in _LISTS if name in value]
        value = {name: part[-1:] if type(part) is list else part for name, part in forms}
    turns, _, _ = thread_forms.read(value)
    return turns[-1][1] if turns and turns[-1][0] == "assistant" else None


def value_of(line: bytes) -> Any:
    """Parses a thread as graders do: unpaired surrogates, which msgspec rejects, and a byte order mark are allowed.

    Raises:
        ValueError, RecursionError: the line is not valid JSON.
    """
    if not slow_numbers.are_many(line):  # which `json` reads twenty times as fast
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(line)
    return json.loads(line.decode("utf-8-sig"))
