"""Counts the errors of a batch, similar messages together."""

from dataclasses import dataclass

from gradebox.combination import COMBINED
from gradebox.outcome import Outcome
from gradebox.similar_messages import Similar, group_of

GROUPS = 10_000  # groups that are counted: a grader's messages may all differ


@dataclass
class CountedError:
    """Outcomes of one grader with errors of one kind and similar messages."""

    kind: str
    similar: Similar
    example: str
    first: Outcome
    count: int = 0

    def as_dict(self) -> dict[str, object]:
        """A dict for JSON output, with the message and the stdout of the first outcome."""
        return {
            "grader": self.first.grader,
            "kind": self.kind,
            "count": self.count,
            "message": self.similar.message,
            "line": self.similar.line,
            "example": self.example,
            "first": {"index": self.first.index, "id": self.first.id, "stdout": self.first.stdout},
        }


class ErrorCounts:
    """Counts outcomes with an error of one kind, or of any kind.

    Attributes:
        total: the number of these outcomes.
    """

    def __init__(self, kind: str | None) -> None:
        self.total = 0
        self._kind = kind
        self._failed = -1  # the last thread with an error
        self._groups: dict[tuple[str, str, Similar], CountedError] = {}

    def add(self, outcome: Outcome) -> None:
        """Counts an outcome. Outcomes come in the order of the threads; a combined one counts if its error is none of
        the graders', as that of a sum that is not finite.
        """
        error = outcome.error
        if error is None or (outcome.grader == COMBINED and outcome.index == self._failed):
            return
        self._failed = outcome.index
        if self._kind not in (None, error.kind):
            return
        self.total += 1
        similar = group_of(error.message)
        key = outcome.grader, error.kind, similar
        if key in self._groups or len(self._groups) < GROUPS:
            self._groups.setdefault(key, CountedError(error.kind, similar, error.message, outcome)).count += 1

    def most_frequent(self, limit: int) -> list[CountedError]:
        """The largest groups, at most `limit`."""
        return sorted(self._groups.values(), key=lambda group: -group.count)[:limit]
