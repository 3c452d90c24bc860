"""Strict reading of replies. Nothing is guessed: if two readings of a reply differ, it is invalid.

1. A reply that is JSON as a whole, or in one fence around the whole, is that value, whatever its texts quote.
2. If a reply begins with `<think>`, what follows the first `</think>` is read, by rule 1 and then 3. Without a
   `</think>`, it is cut off, and invalid. A tag anywhere else may be quoted from a completion: it ends no thinking.
3. All JSON objects of the text, in fences and outside, must be equal. No tag of thinking may stand open before the last
   one, or anywhere after it. Braces of prose, such as `\\boxed{5}`, are skipped. An object that is broken, or that
   stands inside braces of prose, makes the reply invalid. So does one that also stands in what the model was sent: it
   may be quoted from a completion.

JSON in which an object has a member twice, or a number such as `1e999` would be infinite, is invalid; a whole number
may have any size. Where options are chosen, a text without an object may be the exact name of one.
"""

import re
from collections.abc import Iterable
from json import JSONDecoder
from math import isfinite
from typing import Any, NamedTuple

from gradebox.same_json import same

_THINKING, _THINKING_END = "<think>", "</think>"
_AROUND = " \t\r\n\"'`*_“”‘’"  # quotes and markup around a bare option
_LONGEST = 262_144
_MOST_BRACES = 4096  # of objects, and of prose

# These take linear time: the host uses them too.
_FENCED = re.compile(r"(```|~~~)[\w+.-]*[ \t\r]*\n(.*)\1", re.DOTALL)
_BRACE = re.compile("[{}]")
_OBJECT = re.compile(r"""\{\s*(?:["'`“”‘’}]|[\w$-]+\s*:)""")  # the beginning of an object, in any notation


class _Object(NamedTuple):
    value: dict[str, Any]
    begin: int
    end: int


def json_of(text: str, sent: Iterable[str] = ()) -> Any:
    """The JSON value of a reply to the texts that were sent.

    Raises:
        ValueError: there is none, or more than one; the message is written for the model.
    """
    text = _without_thinking(text)
    if len(text) > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST} characters")
    fenced = _FENCED.fullmatch(text)
    try:
        return decoder.decode(fenced[2] if fenced else text)
    except (ValueError, RecursionError):
        return _only_object(text, sent)


def option_of(text: str, options: list[str], sent: Iterable[str] = ()) -> tuple[str, str | None] | None:
    """The option that a reply to the texts that were sent names, and its reasoning; None if it names none.

    An option's exact name always counts. Quotes and markup around a name, a full stop after it, and another case are
    ignored, unless several options then have that name.
    """
    try:
        bare = _without_thinking(text)
    except ValueError:
        return None
    try:
        data = json_of(text, sent)
    except ValueError:
        data = bare
    if isinstance(data, dict):
        said, reason = _option_in(data), data.get("reasoning")
    else:
        said, reason = data if isinstance(data, str) else bare, None  # a bare number: options may be numbers
    found = _match(said, options)
    return None if found is None else (found, reason if isinstance(reason, str) else None)


def _without_thinking(text: str) -> str:
    """Strip the block of thinking that a reply begins with. Some servers leave it there."""
    text = text.strip()
    if not text.startswith(_THINKING):
        return text
    _, end, rest = text.partition(_THINKING_END)
    if not end:
        raise ValueError(f"its thinking is cut off: there is no {_THINKING_END}")
    return rest.strip()


def _only_object(text: str, sent: Iterable[str]) -> Any:
    """The object that a text holds, once or several times."""
    found = _objects(text)
    if not found:
        raise ValueError("it holds no JSON object")
    if any(not same(found[0].value, other.value) for other in found[1:]):
        raise ValueError("it holds more than one JSON object")
    last = found[-1]
    is_thinking = text.rfind(_THINKING, 0, last.begin) > text.rfind(_THINKING_END, 0, last.begin)
    if is_thinking or _THINKING in text[last.end :] or _THINKING_END in text[last.end :]:
        raise ValueError("it holds no JSON object after its thinking")
    if _is_quoted(text[last.begin : last.end], sent):
        raise ValueError("it holds a JSON object that it was sent, among other words, and may only quote it")
    return last.value


def _is_quoted(text: str, sent: Iterable[str]) -> bool:
    """Whether one of the texts that were sent holds this one, perhaps with other spaces and escapes."""
    bare = _bare_json(text)
    return any(bare in _bare_json(each) for each in sent)


def _bare_json(text: str) -> str:
    return "".join(text.split()).replace("\\", "")


def _objects(text: str) -> list[_Object]:
    """The outermost JSON objects in a text."""
    found: list[_Object] = []
    position = depth = 0
    for _ in range(_MOST_BRACES):
        brace = _BRACE.search(text, position)
        if brace is None:
            return found
        position = brace.end()
        if brace[0] == "}":
            depth -= 1
            continue
        if not _OBJECT.match(text, brace.start()):
            depth += 1
            continue
        if depth:  # it would be only a part
            raise ValueError("its JSON object stands between other braces")
        try:
            value, position = decoder.raw_decode(text, brace.start())
        except (ValueError, RecursionError) as error:
            raise ValueError(f"it holds an object that is no JSON ({error})") from None
        found.append(_Object(value, brace.start(), position))
    raise ValueError(f"it holds more than {_MOST_BRACES} braces")


def _option_in(data: dict[str, Any]) -> str:
    option = data.get("option")
    if isinstance(option, int | float) and not isinstance(option, bool):
        return str(option)
    return option if isinstance(option, str) else ""


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


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        raise ValueError("one of its objects has a member twice")
    return found


def _refuse(why: str) -> Any:
    raise ValueError(why)


def _finite(digits: str) -> float:
    """A float. One such as `1e999` would be infinite: above every threshold, and the upper bound of every range."""
    number = float(digits)
    return number if isfinite(number) else _refuse(f"{digits:.80} is too large a number")


decoder = JSONDecoder(
    object_pairs_hook=_once, parse_float=_finite, parse_constant=lambda name: _refuse(f"{name} is no JSON")
)
"""Decodes JSON in which no object has a member twice, and each number is finite."""
