"""What the completions of a line of threads are."""

import json
from typing import Any

import msgspec

from gradebox import group_forms, thread_forms


def completions(line: bytes) -> list[str]:
    """The completion of a thread, or those of a group; none of what is no thread, or has no turn of the assistant."""
    try:
        value = _value(line)
        is_group = type(value) is dict and thread_forms.is_group(value)
        turns = [thread_forms.read(each, keep_unknown=True)[0] for each in _threads(value, is_group)]
    except (ValueError, RecursionError):  # it became an outcome of kind `bad_input`
        return []
    return [said[-1][1] for said in turns if said and said[-1][0] == "assistant"]


def _threads(value: Any, is_group: bool) -> list[Any]:
    return group_forms.members(value) if is_group else [value]


def _value(line: bytes) -> Any:
    """As graders are given it: with halves of surrogate pairs, which msgspec refuses, and without a byte order mark."""
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return json.loads(line.decode("utf-8-sig"))
