"""Counts the errors of a batch by message."""

from dataclasses import dataclass

from gradebox.outcome import Outcome

MESSAGES = 10_000  # distinct messages that are counted: a grader's messages may differ in every outcome


@dataclass
class CountedError:
    """Outcomes of one grader with the same error."""

    kind: str
    message: str
    first: Outcome
    count: int = 0

    def as_dict(self) -> dict[str, object]:
        """A dict for JSON output, with the stdout of the first outcome."""
        first = {"index": self.first.index, "id": self.first.id, "stdout": self.first.stdout}
        return {
            "grader": self.first.grader,
            "kind": self.kind,
            "count": self.count,
            "message": self.message,
            "first": first,
        }


class ErrorCounts:
    """Counts outcomes with an error of one kind, or of any kind.

    Attributes:
        total: the number of these outcomes.
    """

    def __init__(self, kind: str | None) -> None:
        self.total = 0
        self._kind = kind
        self._groups: dict[tuple[str, str, str], CountedError] = {}

    def add(self, outcome: Outcome) -> None:
        """Counts an outcome."""
        error = outcome.error
        if error is None or self._kind not in (None, error.kind):
            return
        self.total += 1
        key = outcome.grader, error.kind, error.message
        if key in self._groups or len(self._groups) < MESSAGES:
            self._groups.setdefault(key, CountedError(error.kind, error.message, outcome)).count += 1

    def most_frequent(self, limit: int) -> list[CountedError]:
        """The most frequent messages, at most `limit`."""
        return sorted(self._groups.values(), key=lambda group: -group.count)[:limit]
