"""What a reply says, read strictly: JSON that stands alone or in one fence, an option that is one.

Nothing is guessed: a reply that is cut off, that holds two different objects, or that names an option among other words
is none.
"""

import re
from json import JSONDecoder, loads
from typing import Any

_FENCE = re.compile(r"```(?:json|JSON)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)
_THINKING_END = "</think>"
_AROUND = " \t\r\n\"'`*_.“”‘’"  # quotes, markup and a full stop around a bare option
_decoder = JSONDecoder(parse_constant=lambda name: _refuse(f"{name} is no JSON"))
_LONGEST = 262_144


def json_of(text: str) -> Any:
    """The JSON value that a reply holds: all of it, or what stands in its one fence, or its one object.

    Raises:
        ValueError: there is none, or more than one; the message says which, for the model to read.
    """
    text = without_thinking(text)
    if len(text) > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST} characters")
    try:
        return loads(text, parse_constant=lambda name: _refuse(f"{name} is no JSON"))
    except (ValueError, RecursionError):
        pass
    fenced = _FENCE.findall(text)
    if len(fenced) == 1:
        try:
            return loads(fenced[0], parse_constant=lambda name: _refuse(f"{name} is no JSON"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"what stands in its fence is no JSON ({error})") from None
    found = _objects(text)
    if not found:
        raise ValueError("it holds no JSON object")
    if any(other != found[0] for other in found[1:]):
        raise ValueError("it holds more than one JSON object")
    return found[0]


def option_of(text: str, options: list[str]) -> tuple[str, str | None] | None:
    """The option that a reply names, and its reasoning; None where it names none.

    An option may be written in another case, where that is not another option. Around a reply that is an option and
    nothing else there may be quotes and markup.
    """
    reasoning: str | None = None
    bare = without_thinking(text).strip(_AROUND)
    try:
        data = json_of(text)
    except ValueError:
        data = bare
    if not isinstance(data, dict | str | list):
        data = bare  # a number, where options are numbers
    if isinstance(data, dict):
        reason = data.get("reasoning")
        reasoning = reason if isinstance(reason, str) else None
        data = data.get("option")
    found = _match(data.strip(_AROUND), options) if isinstance(data, str) else None
    return None if found is None else (found, reasoning)


def without_thinking(text: str) -> str:
    """A reply without what comes before the end of a block of thinking, which some servers leave in."""
    _, end, rest = text.rpartition(_THINKING_END)
    return (rest if end else text).strip()


def _match(said: str, options: list[str]) -> str | None:
    stripped = [option.strip(_AROUND) for option in options]
    for names, name in ((options, said), (stripped, said), ([n.casefold() for n in stripped], said.casefold())):
        if names.count(name) == 1:
            return options[names.index(name)]
    return None


def _objects(text: str) -> list[Any]:
    """The JSON objects in a text that hold none of each other."""
    found: list[Any] = []
    position = text.find("{")
    while position >= 0 and len(found) < 8:
        try:
            value, end = _decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            # What looks like the start of an object and is none: a smaller one inside it would be a part of a whole.
            return []
        found.append(value)
        position = text.find("{", end)
    return found


def _refuse(why: str) -> Any:
    raise ValueError(why)
