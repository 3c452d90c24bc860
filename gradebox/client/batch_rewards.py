"""The rewards of a batch: what `batch.rewards()` computes from its outcomes."""

from math import isfinite

from gradebox.outcome import Outcome, weighted_sum
from gradebox.schemas import Batch


class Rewards:
    """One number for each thread of a batch: the weighted sum of its graders' scores."""

    def __init__(self, batch: Batch) -> None:
        self._weights = {str(grader): grader.weight for grader in batch.graders}
        self._rewards: list[float | None] = [None] * batch.threads
        self._parts: dict[int, list[tuple[float, float | None]]] = {}

    def add(self, outcome: Outcome) -> None:
        """Adds one outcome. If it has no score, or the sum is not finite, its thread has no reward."""
        weight = self._weights.get(outcome.grader)
        if weight is None:  # a recorded score, not one of the batch's graders
            return
        parts = self._parts.setdefault(outcome.index, [])
        parts.append((weight, outcome.score))
        if len(parts) == len(self._weights):
            total = weighted_sum(self._parts.pop(outcome.index))
            self._rewards[outcome.index] = total if total is not None and isfinite(total) else None

    def result(self) -> list[float | None]:
        """The rewards, in the order of the threads."""
        return self._rewards
