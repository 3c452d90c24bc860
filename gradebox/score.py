"""`Score`, a float with a reason, values and details; and the exception for threads that a grader does not apply to.

Graders import this module inside the sandbox, so it imports only the standard library.
"""

from itertools import chain
from typing import Any

MOST_VALUES = 16
DETAILS_BYTES = 16_384
DETAILS_DEPTH = 200  # Python decodes some 900 levels, and fewer the more functions have been called
GROUP_BYTES = 1 << 18  # of all scores of a group, with their reasons, values and details
NAME_CHARACTERS = 64
_NESTED = (dict, list, tuple)
_LARGEST = 1.7976931348623157e308  # the largest float


class Score(float):
    """A float with an optional reason, named values and details.

    `return Score(0.5, reason="no unit", values={"format": 1.0, "length": 0.3})`. It adds, compares and prints as a
    float.
    """

    __slots__ = ("details", "reason", "values")

    reason: str | None
    values: dict[str, float] | None
    details: dict[str, Any] | None

    def __new__(
        cls,
        value: float,
        reason: str | None = None,
        values: dict[str, float] | None = None,
        details: dict[str, Any] | None = None,
    ) -> "Score":
        """Make a score.

        Args:
            value: the score.
            reason: why, in words. In place of one that is no text, the outcome says what type it has.
            values: at most 16 finite numbers by name. A name has at most 64 characters, all of them printable.
            details: a dict that JSON can hold, of at most 16 KiB and 200 levels. It appears unchanged in the outcome,
                except that half a surrogate pair becomes its escape, as in a reason: the six characters `\\ud83d`.

        Raises:
            ValueError: `values` is invalid; the message names the value. `details` is checked only when `grade`
                returns.
        """
        score = super().__new__(cls, value)
        score.reason = reason
        score.values = None if values is None else _checked(values)
        score.details = details
        return score

    @classmethod
    def passed(cls, reason: str | None = None) -> "Score":
        """A score of 1.0."""
        return cls(1.0, reason)

    @classmethod
    def failed(cls, reason: str) -> "Score":
        """A score of 0.0 with a reason.

        Raises:
            ValueError: the reason is not a string, or is empty.
        """
        if not isinstance(reason, str) or not reason.strip():
            raise ValueError(f"Score.failed() takes a text that says why, and got {reason!r:.80}")
        return cls(0.0, reason)

    def __repr__(self) -> str:
        parts = [(name, getattr(self, name, None)) for name in ("reason", "values", "details")]
        given = "".join(f", {name}={part!r}" for name, part in parts if part is not None)
        return f"{type(self).__name__}({float.__repr__(self)}{given})"

    def __str__(self) -> str:
        return float.__repr__(self)

    def __reduce__(
        self,
    ) -> "tuple[type[Score], tuple[float, str | None, dict[str, float] | None, dict[str, Any] | None]]":
        return Score, (float(self), self.reason, self.values, self.details)


class NotApplicable(Exception):
    """Raised by a grader that does not apply to a thread: the outcome then has neither a score nor an error, but
    `not_applicable` with this reason, and is counted separately. `details` appear in the outcome as those of a `Score`.
    """

    def __init__(self, reason: str = "", details: dict[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.details = details


def _checked(values: dict[str, float]) -> dict[str, float]:
    if not isinstance(values, dict) or len(values) > MOST_VALUES:
        raise ValueError(f"values= takes a dict of at most {MOST_VALUES} names and numbers, and got {values!r:.80}")
    for name, number in values.items():
        if not isinstance(name, str) or not is_name(name):
            raise ValueError(
                f"values=: {name!r:.80} is no name: write 1 to {NAME_CHARACTERS} characters, all of them printable"
            )
        if not isinstance(number, int | float) or not -_LARGEST <= number <= _LARGEST:
            raise ValueError(f"values=: {name!r} is {number!r:.80}, and a value is a finite int or float of Python")
    return {str(name): float(number) for name, number in values.items()}


def is_too_deep(value: object, levels: int = DETAILS_DEPTH) -> bool:
    """Return whether a value of JSON has more than this number of levels, by default as many as details may have."""
    members = [value]
    for _ in range(levels + 1):
        nested = [each.values() if isinstance(each, dict) else each for each in members if isinstance(each, _NESTED)]
        if not nested:
            return False
        members = list(chain.from_iterable(nested))
    return True


def is_name(text: str) -> bool:
    """Return whether a value may have this name."""
    return 0 < len(text) <= NAME_CHARACTERS and text.isprintable()
