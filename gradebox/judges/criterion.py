"""The criterion of a judge, with its options and their scores."""

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

ContextFields = Mapping[str, str] | Sequence[str] | str | None
"""One or more field names, or a mapping of displayed names to fields; None: the conversation before the completion."""

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


class Option(NamedTuple):
    """A possible decision of a judge. Without a score, an option named by a number scores that number."""

    name: str
    description: str = ""
    score: float | None = None

    def worth(self) -> float | None:
        """Return its score; None if it has none."""
        if self.score is not None:
            return float(self.score)
        number = float(self.name) if _NUMBER.fullmatch(self.name) else None
        return number if number is not None and isfinite(number) else None


class Criterion(NamedTuple):
    """The criterion by which a text is judged.

    Attributes:
        description: the question about the text, in words.
        options: the possible decisions, at least two.
        name: for display and for `details`; may be empty.
        to_evaluate: the field that is judged: `completion`, `question`, or a metadata field.
        context_fields: the fields that the judge is shown beside it.
        higher_is_better: whether a high score is good. It does not change any score.
    """

    description: str
    options: Sequence[Option]
    name: str = ""
    to_evaluate: str = "completion"
    context_fields: ContextFields = None
    higher_is_better: bool = True

    def scores(self) -> dict[str, float]:
        """Return the score of each option. Raises ValueError if one has none."""
        worths = {option.name: option.worth() for option in self.options}
        if lacking := [name for name, worth in worths.items() if worth is None]:
            raise ValueError(
                f"the option {lacking[0]!r:.80} of criterion {self.label!r} has no score: give it one, as in "
                f'{{"name": {lacking[0]!r:.80}, "score": 1.0}}'
            )
        return {name: worth for name, worth in worths.items() if worth is not None}

    def as_config(self) -> dict[str, Any]:
        """Convert the criterion to JSON types."""
        return {**self._asdict(), "options": [option._asdict() for option in self.options]}

    @property
    def label(self) -> str:
        """Its name; the beginning of its description if it has none."""
        return self.name or self.description[:80]


def yes_no(description: str, **more: Any) -> Criterion:
    """A criterion with the options Yes (1.0) and No (0.0)."""
    return Criterion(description, (Option("Yes", "", 1.0), Option("No", "", 0.0)), **more)


def yes_partially_no(description: str, **more: Any) -> Criterion:
    """A criterion with the options Yes (1.0), Partially (0.5) and No (0.0)."""
    return Criterion(description, (Option("Yes", "", 1.0), Option("Partially", "", 0.5), Option("No", "", 0.0)), **more)
