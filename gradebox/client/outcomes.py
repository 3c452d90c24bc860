"""What is made of the outcomes of several requests, or of several graders."""

from msgspec.structs import replace

from gradebox.errors import GradeboxError
from gradebox.outcome import Outcome
from gradebox.schemas import Batch


def moved(outcomes: list[Outcome], first: int) -> list[Outcome]:
    """The outcomes of a later request, with the positions that their threads have among all."""
    return [replace(outcome, index=first + outcome.index) for outcome in outcomes] if first else outcomes


class Rewards:
    """One number for each thread of a batch: the sum of its graders' scores, each times the weight of its grader."""

    def __init__(self, batch: Batch) -> None:
        self._weights = {f"{grader.key}@{grader.version}": grader.weight for grader in batch.graders}
        self._sums: list[float | None] = [0.0] * batch.threads
        self._missing = batch.total

    def add(self, outcome: Outcome) -> None:
        """Counts one outcome. Without a score there is no reward."""
        weight = self._weights.get(outcome.grader)
        if weight is None:  # it was recorded from outside
            return
        before = self._sums[outcome.index]
        score = outcome.score
        self._sums[outcome.index] = None if before is None or score is None else before + weight * score
        self._missing -= 1

    def result(self) -> list[float | None]:
        """The rewards, in the order of the threads. Raises GradeboxError where outcomes are missing."""
        if self._missing:
            raise GradeboxError(f"{self._missing} outcomes of the batch are missing, and rewards need all of them")
        return self._sums
