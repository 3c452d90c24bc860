"""Templates such as `{{ item.answer }}`: paths into an item or a sample, without expressions."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from api.dialects.openai.refused import OpenAIProblem

CHARACTERS = 1 << 20  # the limit of a rendered template, which may repeat a name a thousand times

_PLACE = re.compile(r"\{\{([^{}]{0,500})\}\}")
_PATH = re.compile(r"\s*(item|sample)((?:\.[\w-]+|\[\d{1,6}\])+)\s*", re.ASCII)
_STEP = re.compile(r"\.([\w-]+)|\[(\d+)\]", re.ASCII)

Names = Mapping[str, Any]
"""The two namespaces, `item` and `sample`."""


class Unresolved(Exception):
    """The item or the sample has no value for the `name` in a template."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no {name}")


def check(template: str, param: str) -> None:
    """Raises OpenAIProblem if a placeholder of the template is not a valid path."""
    for place in _PLACE.findall(template):
        if not _PATH.fullmatch(place):
            raise OpenAIProblem(
                f"{{{{{place}}}}} is no name: write {{{{ item.NAME }}}} or {{{{ sample.output_text }}}}, "
                "with .NAME and [NUMBER] for what lies deeper",
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
    for place in _PLACE.finditer(template):
        for piece in (template[end : place.start()], _text(place[1], names)):
            length += len(piece)
            _check_length(length, param)
            pieces.append(piece)
        end = place.end()
    _check_length(length + len(template) - end, param)
    return "".join(pieces) + template[end:]


def _text(place: str, names: Names) -> str:
    path = _PATH.fullmatch(place)
    if path is None:
        raise Unresolved(place.strip())
    value, shown = names[path[1]], path[1]
    for step in _STEP.finditer(path[2]):
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
