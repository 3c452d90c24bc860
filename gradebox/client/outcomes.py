"""Outcomes of a batch or of one request: their indices, whose they are, and the warning if none has a score."""

from msgspec.structs import replace

from gradebox.outcome import Outcome
from gradebox.schemas import Summary


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
