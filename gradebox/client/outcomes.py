"""Merges the outcomes of several requests or of several graders."""

from math import isfinite

from msgspec.structs import replace

from gradebox.outcome import Outcome, weighted_sum
from gradebox.schemas import Batch, Summary


def moved(outcomes: list[Outcome], first: int) -> list[Outcome]:
    """The outcomes of a request that starts at thread `first`, with indices among all threads."""
    return [replace(outcome, index=first + outcome.index) for outcome in outcomes] if first else outcomes


def no_scores(summary: Summary, first: Outcome | None) -> str:
    """The warning of a grader that could score no thread. `first` is its outcome of the first thread."""
    example = [f"The first error: {first.error.message}"] if first is not None and first.error else []
    return ". ".join([f"{summary.grader} scored no thread", *summary.warnings, *example])


def is_of(outcome: Outcome, grader: str | None) -> bool:
    """Whether an outcome is of this grader: `key`, `key@version`, or None for any grader."""
    return grader is None or grader in (outcome.grader, outcome.grader.partition("@")[0])


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
