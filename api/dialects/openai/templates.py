"""Templates such as `{{ item.answer }}`: paths into an item or a sample, without expressions."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from api.dialects.openai.problems import OpenAIProblem

CHARACTERS = 1 << 20  # the limit of a rendered template, which may repeat a name a thousand times

_PLACEHOLDER = re.compile(r"\{\{\s*(item|sample)((?:\.[\w-]+|\[\d{1,6}\])+)\s*\}\}", re.ASCII)
_STEP = re.compile(r"\.([\w-]+)|\[(\d+)\]", re.ASCII)
# Tags and comments of Jinja. They need an end, because LaTeX has `{%` at line ends, and `{#1}`.
_TAGS = ((re.compile(r"\{%[-+]?\s*[A-Za-z]"), "%}"), (re.compile(r"\{#"), "#}"))
_SINGLE_BRACES = re.compile(r"(?<![{$])\{\s*sample\.output_(?:text|json|tools)\b[\w.\[\]-]*\s*\}")
_QUOTED = 80  # characters of a template in an error

Names = Mapping[str, Any]
"""The two namespaces, `item` and `sample`."""


class Unresolved(Exception):
    """The item or the sample has no value for the `name` in a template."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no {name}")


def check(template: str, param: str) -> None:
    """Raises OpenAIProblem if the template has `{{` that begins no placeholder, a tag or a comment.

    All other braces are text, also `}}` and an unclosed `{%` or `{#`.
    """
    end = 0
    while (start := template.find("{{", end)) >= 0:
        place = _PLACEHOLDER.match(template, start)
        if place is None:
            raise _refused(template, start, "}}", param)
        end = place.end()
    for begin, close in _TAGS:
        if (found := begin.search(template)) and template.find(close, found.end()) >= 0:
            raise _refused(template, found.start(), close, param)
    if single := _SINGLE_BRACES.search(template):
        raise _refused(template, single.start(), "}", param)


def _refused(template: str, start: int, close: str, param: str) -> OpenAIProblem:
    end = template.find(close, start)
    end = end + len(close) if end >= 0 else len(template)
    while template.startswith("}", end):
        end += 1
    found = template[start:end] if end - start <= _QUOTED else f"{template[start : start + _QUOTED]}…"
    return OpenAIProblem(
        f"{param} has {found}, which is no placeholder: write {{{{ item.NAME }}}} or {{{{ sample.output_text }}}}, "
        "with .NAME and [NUMBER] for what lies deeper, and no filters, conditions or comments. Text with such braces "
        "belongs in the item, whose values are inserted unchanged",
        param,
    )


def render(template: str, names: Names, param: str) -> str:
    """Fills in each placeholder of the template: a string as it is, anything else as JSON.

    Raises:
        Unresolved: a name has no value.
        OpenAIProblem: the text would be longer than 2^20 characters.
    """
    pieces: list[str] = []
    length = end = 0
    for place in _PLACEHOLDER.finditer(template):
        for piece in (template[end : place.start()], _text(place, names)):
            length += len(piece)
            _check_length(length, param)
            pieces.append(piece)
        end = place.end()
    _check_length(length + len(template) - end, param)
    return "".join(pieces) + template[end:]


def _text(place: re.Match[str], names: Names) -> str:
    value, shown = names[place[1]], place[1]
    for step in _STEP.finditer(place[2]):
        shown += step[0]
        value = _deeper(value, step[1], step[2], shown)
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _deeper(value: Any, name: str | None, number: str | None, shown: str) -> Any:
    if name is not None and isinstance(value, dict) and name in value:
        return value[name]
    if number is not None and isinstance(value, list) and int(number) < len(value):
        return value[int(number)]
    raise Unresolved(shown)


def _check_length(length: int, param: str) -> None:
    if length > CHARACTERS:
        raise OpenAIProblem(f"the text of {param} is longer than {CHARACTERS} characters: compare less", param)
