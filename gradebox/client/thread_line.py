"""Encodes one thread as a line of JSON for the service."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import isfinite
from typing import Any, NamedTuple, TypeAlias

import msgspec

from gradebox.group_forms import members
from gradebox.limits import ID_CHARACTERS
from gradebox.thread import StringThread
from gradebox.thread_forms import check_role, is_group, read

_OneThread: TypeAlias = StringThread | Mapping[str, object] | Sequence[tuple[str, str]]
Thread: TypeAlias = _OneThread | Sequence[_OneThread]
"""A thread, its JSON form as a dict, or a list of (role, content). For a grader of groups, a list of such threads, or
the JSON form of a group.
"""


class MalformedLine(NamedTuple):
    """A line of a file of rows that is no JSON object. It is sent as it is, and the service gives it an outcome."""

    text: bytes


# ASCII escapes can represent lone surrogates, which occur in completions. NaN is not valid JSON.
encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
# Three times as fast, but it would write NaN as null and dates as strings: only for values that pass `_is_plain`.
_encode_plain = msgspec.json.Encoder().encode
_FORMS = frozenset(("messages", "turns", "completion"))
ACCEPTED = (
    'a thread is a StringThread, a dict such as {"prompt": …, "completion": …} or {"messages": […]}, or a list of '
    "(role, content)"
)
_ATOMS = frozenset((str, int, bool, type(None)))
_NAMES = frozenset((str,))


def to_line(thread: Thread, number: int) -> bytes:
    """The thread as JSON, without a line end.

    Raises:
        TypeError, ValueError: it is not a thread, or JSON cannot represent a part of it. The message has `number`.
    """
    return line_and_form(thread, number)[0]


class LineForm(NamedTuple):
    """The JSON form of a thread or group, whether each of its threads has a completion, and how many threads it has."""

    sent: object
    is_answered: bool
    threads: int = 1


def line_and_form(thread: Thread | MalformedLine, number: int) -> tuple[bytes, LineForm]:
    """The thread as JSON, and its form."""
    if isinstance(thread, MalformedLine):
        return thread.text, LineForm(None, True)
    try:
        form = form_of(thread)
    except (TypeError, ValueError) as error:
        raise type(error)(f"thread {number} is no thread: {error}") from error
    return _json(form.sent, number), form


def _json(form: object, number: int) -> bytes:
    try:
        try:
            if _is_plain(form):
                return _encode_plain(form)
        except (UnicodeEncodeError, RecursionError):
            pass  # a lone surrogate, or a circular reference
        with suppress(RecursionError):  # a circular reference, which `encode` names
            _check_keys(form)
        return encode(form).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        advice = "threads hold strings, numbers that are finite, booleans, None, lists and dicts"
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"thread {number} cannot be sent as JSON: {error}; {advice}") from error


def _check_keys(value: object) -> None:
    """Raises TypeError if a key of a dict is no text: JSON would make it text, and the grader would not find it."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                kind = type(key).__name__
                raise TypeError(f"the key {key!r:.80} of a dict is of type {kind}, not text: write {str(key)!r:.80}")
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for part in value:
        _check_keys(part)


def form_of(thread: object) -> LineForm:
    """The form of a thread or group. Raises TypeError and ValueError if it is neither."""
    if isinstance(thread, StringThread):
        if not isinstance(thread.metadata, Mapping):
            raise ValueError(f"its metadata must be a dict, and is {thread.metadata!r:.80}")
        sent = {"messages": thread.raw_messages(), "metadata": thread.metadata}
        return LineForm(sent, thread.completion() is not None)
    if isinstance(thread, Mapping):
        form = dict(thread)
        _check_id(form.get("id"))
        if _FORMS.isdisjoint(form) and is_group(form):
            return _group_form(form)
        turns, _, _ = read(form, keep_unknown=True)  # a setting of the service decides about unknown members
        return LineForm(form, _is_answered(turns))
    if isinstance(thread, Sequence) and not isinstance(thread, str | bytes | bytearray):
        if not thread:
            raise ValueError(f"it is an empty list, and {ACCEPTED}")
        if _is_thread(thread[0]):
            return _group_form({"threads": thread})
        pairs = [_pair(turn) for turn in thread]
        return LineForm({"turns": pairs}, _is_answered(pairs))
    raise TypeError(f"it is a {type(thread).__name__}, and {ACCEPTED}")


def _check_id(value: object) -> None:
    is_text = isinstance(value, str) and len(value) <= ID_CHARACTERS
    is_number = isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) < value < 1 << 63
    if not (value is None or is_text or is_number):
        raise ValueError(
            f'"id" must be a string of at most {ID_CHARACTERS} characters, or a whole number of 64 bits, and is '
            f"{value!r:.80}"
        )


def _is_thread(value: object) -> bool:
    """Whether a value is a thread and not a turn, which is a pair of strings."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return any(not isinstance(part, str) for part in value)
    return isinstance(value, StringThread | Mapping)


def _group_form(group: dict[str, object]) -> LineForm:
    threads: Any = group.get("threads")
    if isinstance(threads, Sequence) and not isinstance(threads, str):
        group["threads"] = [form_of(thread).sent for thread in threads]
    found = members(group)
    is_answered = [_is_answered(read(each, keep_unknown=True)[0]) for each in found]  # reads all, to raise errors here
    return LineForm(group, all(is_answered), len(found))


def _is_answered(turns: Sequence[Sequence[str]]) -> bool:
    return bool(turns) and turns[-1][0] == "assistant"


def _is_plain(value: Any) -> bool:
    """Whether a value has only the types of JSON, so that all encoders write it alike."""
    kind = type(value)
    if kind is dict:
        if not _NAMES.issuperset(map(type, value)):
            return False
        value = value.values()
    elif kind is float:
        return isfinite(value)
    elif kind is not list and kind is not tuple:
        return kind in _ATOMS
    return _ATOMS.issuperset(map(type, value)) or all(_is_plain(part) for part in value if type(part) not in _ATOMS)


def _pair(turn: object) -> list[str]:
    if isinstance(turn, Sequence) and not isinstance(turn, str) and _are_two_texts(turn):
        check_role(turn[0], "a turn")
        return list(turn)
    raise TypeError(f"{turn!r:.80} is no pair of role and content")


def is_turn(value: object) -> bool:
    """Whether a value is a pair of role and content."""
    return isinstance(value, tuple | list) and _are_two_texts(value)


def _are_two_texts(turn: Sequence[object]) -> bool:
    return len(turn) == 2 and all(isinstance(part, str) for part in turn)
