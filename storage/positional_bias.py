"""Positional bias, from the details of outcomes: whether a judge that asked in both orders decided differently."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol


class _Judged(Protocol):
    @property
    def details(self) -> dict[str, Any] | None: ...


class _Outcome(_Judged, Protocol):
    """An `Outcome`, or the part of one that was read from its line."""

    @property
    def scores(self) -> Sequence[_Judged] | None: ...


def decisions(outcome: _Outcome) -> Iterator[bool]:
    """For each decision made in both orders, whether the two differ. A grader's details may contain anything."""
    if outcome.details is not None:
        bias = outcome.details.get("positional_bias")
        if isinstance(bias, dict) and isinstance(bias.get("detected"), bool):
            yield bias["detected"]
    for number, one in enumerate(outcome.scores or (), 1):
        if one.details is not None:
            yield from _contests(one.details.get("contests"), number)


def _contests(contests: Any, number: int) -> Iterator[bool]:
    """Whether each contest is biased. Each is yielded once, although the details of all its participants contain it."""
    for contest in contests if isinstance(contests, list) else ():
        if isinstance(contest, dict) and isinstance(biased := contest.get("biased"), bool):
            others = contest.get("against")
            if isinstance(others, list) and all(isinstance(other, int) and other > number for other in others):
                yield biased
