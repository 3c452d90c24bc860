"""Merges the outcomes of several requests or of several graders."""

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite

from msgspec.structs import replace

from gradebox.errors import GradeboxError
from gradebox.outcome import Outcome, weighted_sum
from gradebox.schemas import Batch, Summary


def moved(outcomes: list[Outcome], first: int) -> list[Outcome]:
    """The outcomes of a request that starts at thread `first`, with indices among all threads."""
    return [replace(outcome, index=first + outcome.index) for outcome in outcomes] if first else outcomes


def checked(outcomes: Sequence[Outcome], batch: Batch) -> Sequence[Outcome]:
    """The outcomes of a batch that is over. Raises GradeboxError if some are missing: it is being scored again."""
    return [*counted(outcomes, batch)]


def counted(outcomes: Iterable[Outcome], batch: Batch) -> Iterator[Outcome]:
    """As `checked`, for outcomes that are used as they arrive: the error comes after the last one."""
    graders = {str(grader) for grader in batch.graders}  # outcomes of other graders are recorded scores
    missing = batch.total
    for outcome in outcomes:
        missing -= outcome.grader in graders
        yield outcome
    _raise_if(missing, batch)


def _raise_if(missing: int, batch: Batch) -> None:
    if missing:
        raise GradeboxError(
            f"{missing} of {batch.total} outcomes of batch {batch.id} are missing, probably because somebody has it "
            "scored again: wait for its end once more, and read them again"
        )


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
        self._batch = batch
        self._weights = {f"{grader.key}@{grader.version}": grader.weight for grader in batch.graders}
        self._rewards: list[float | None] = [None] * batch.threads
        self._parts: dict[int, list[tuple[float, float | None]]] = {}
        self._missing = batch.total

    def add(self, outcome: Outcome) -> None:
        """Adds one outcome. If it has no score, or the sum is not finite, its thread has no reward."""
        weight = self._weights.get(outcome.grader)
        if weight is None:  # a recorded score, not one of the batch's graders
            return
        self._missing -= 1
        parts = self._parts.setdefault(outcome.index, [])
        parts.append((weight, outcome.score))
        if len(parts) == len(self._weights):
            total = weighted_sum(self._parts.pop(outcome.index))
            self._rewards[outcome.index] = total if total is not None and isfinite(total) else None

    def result(self) -> list[float | None]:
        """The rewards, in the order of the threads. Raises GradeboxError if outcomes are missing."""
        _raise_if(self._missing, self._batch)
        return self._rewards
