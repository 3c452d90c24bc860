"""Strict parsing of replies: JSON that stands alone or in a single fence, and an option's exact name.

Nothing is guessed. A reply is invalid if it is cut off, holds two different objects, or names an option among other
words.
"""

import re
from json import JSONDecoder
from typing import Any

_FENCE = re.compile(r"```(?:json|JSON)?[ \t]*\n(.*?)```", re.DOTALL)  # takes linear time: the host uses it too
_THINKING_END = "</think>"
_AROUND = " \t\r\n\"'`*_“”‘’"  # quotes and markup around a bare option
_decoder = JSONDecoder(parse_constant=lambda name: _refuse(f"{name} is no JSON"))
_LONGEST = 262_144


def json_of(text: str) -> Any:
    """The JSON value of a reply: the whole reply, or the content of its only fence, or its only object.

    Raises:
        ValueError: there is none, or more than one; the message is written for the model.
    """
    text = without_thinking(text)
    if len(text) > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST} characters")
    try:
        return _decoder.decode(text)
    except (ValueError, RecursionError):
        pass
    fenced = _FENCE.findall(text)
    if len(fenced) == 1:
        try:
            return _decoder.decode(fenced[0])
        except (ValueError, RecursionError) as error:
            raise ValueError(f"what stands in its fence is no JSON ({error})") from None
    found = _objects(text)
    if not found:
        raise ValueError("it holds no JSON object")
    if any(other != found[0] for other in found[1:]):
        raise ValueError("it holds more than one JSON object")
    return found[0]


def option_of(text: str, options: list[str]) -> tuple[str, str | None] | None:
    """The option that a reply names, and its reasoning; None if it names none.

    An option's exact name always counts. Quotes and markup around a name, a full stop after it, and another case are
    ignored, unless several options then have that name.
    """
    reasoning: str | None = None
    bare = without_thinking(text)
    try:
        data = json_of(text)
    except ValueError:
        data = bare
    if not isinstance(data, dict | str | list):
        data = bare  # a number: options may be numbers
    if isinstance(data, dict):
        reason = data.get("reasoning")
        reasoning = reason if isinstance(reason, str) else None
        data = data.get("option")
    found = _match(data, options) if isinstance(data, str) else None
    return None if found is None else (found, reasoning)


def without_thinking(text: str) -> str:
    """Strip everything up to the end of a thinking block, which some servers leave in the reply."""
    _, end, rest = text.rpartition(_THINKING_END)
    return (rest if end else text).strip()


def _match(said: str, options: list[str]) -> str | None:
    for form in (str, str.strip, _bare, _folded):
        names, name = [form(option) for option in options], form(said)
        if name and names.count(name) == 1:
            return options[names.index(name)]
    return None


def _bare(name: str) -> str:
    """A name without what may stand around it. A full stop before it may be part of a number, as in `.5`."""
    return name.lstrip(_AROUND).rstrip(_AROUND + ".")


def _folded(name: str) -> str:
    return _bare(name).casefold()


def _objects(text: str) -> list[Any]:
    """The outermost JSON objects in a text."""
    found: list[Any] = []
    position = text.find("{")
    while position >= 0 and len(found) < 8:
        try:
            value, end = _decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            # An invalid object. A smaller object inside it would be only a part, so nothing is returned.
            return []
        found.append(value)
        position = text.find("{", end)
    return found


def _refuse(why: str) -> Any:
    raise ValueError(why)
