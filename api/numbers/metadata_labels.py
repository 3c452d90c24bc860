"""Reads labels from the metadata of threads."""

from collections import Counter
from typing import Any

from api.numbers.outcome_column import NO_SCORE
from gradebox.judges.fields import MISSING, found_at, number_of
from gradebox.thread_forms import METADATA

_MOST_FIELDS = 20
_MOST_CHARACTERS = 40  # of a field's name and of an example
_KINDS = {str: "text", list: "a list", dict: "an object", type(None): "null"}


class MetadataLabels:
    """Reads a field, and remembers what it has that is no number, and which fields there are where it is absent."""

    def __init__(self, label: str) -> None:
        self._label = label[:200]
        self._path = label.removeprefix(METADATA)
        self._kinds = Counter[str]()
        self._example = ""
        self._fields: dict[str, None] = {}

    def read(self, metadata: dict[str, Any]) -> float:
        """The label of a thread, or NaN if the field is absent or no finite number."""
        value = found_at(metadata, self._path)
        number = number_of(value)
        if number is not None:
            return number
        if value is MISSING:
            self._note_fields(metadata)
        else:
            self._note(value)
        return NO_SCORE

    def _note(self, value: Any) -> None:
        self._kinds[_KINDS.get(type(value), "a number that is not finite")] += 1
        if isinstance(value, str) and not self._example:
            self._example = f", for example {_short(value)!r},"

    def _note_fields(self, value: Any) -> None:
        """Remembers the names beside the first part of the path that is absent."""
        path = self._path.split(".")
        before: list[str] = []
        while isinstance(value, dict) and path[0] in value:
            before.append(path.pop(0))
            value = value[before[-1]]
        for name in value if isinstance(value, dict) else [before.pop()]:
            if len(self._fields) > _MOST_FIELDS:
                return
            self._fields[".".join([*before, _short(name)])] = None

    def why_none(self) -> str:
        """Why no thread has a label: what the field has instead, or which fields there are."""
        if self._kinds:
            found = ", and ".join(
                f"{kind}{self._example if kind == 'text' else ''} in {count:,} {'row' if count == 1 else 'rows'}"
                for kind, count in self._kinds.most_common()
            )
            return f"{self._label} is {found}: a label is a number or a boolean"
        if not self._fields:
            return f"{self._label} is in no thread: they have no metadata, nor has a group of threads"
        names = ", ".join([*self._fields][:_MOST_FIELDS])
        return f"{self._label} is in no thread; they have {names}{', …' if len(self._fields) > _MOST_FIELDS else ''}"


def _short(text: str) -> str:
    shown = text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
    return shown.encode("utf-8", "replace").decode()  # JSON of the answer cannot have half of a surrogate pair
