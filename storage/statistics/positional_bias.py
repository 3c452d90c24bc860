"""Positional bias, from the details of outcomes: whether a judge that asked in both orders decided differently."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from gradebox.outcome import details_of


class _Judged(Protocol):
    @property
    def details(self) -> dict[str, Any] | None: ...


class _Outcome(_Judged, Protocol):
    """An `Outcome`, or the part of one that was read from its line."""

    @property
    def scores(self) -> Sequence[_Judged] | None: ...


def decisions(outcome: _Outcome) -> Iterator[bool]:
    """For each decision made in both orders, whether the two differ. A grader's details may contain anything."""
    if (details := details_of(outcome)) is not None:
        yield from _samples(details.get("positional_bias"))
    lists = [(details_of(one) or {}).get("contests") for one in outcome.scores or ()]
    reported = {number: contests for number, contests in enumerate(lists, 1) if isinstance(contests, list)}
    earlier: set[int] = set()
    for number, contests in reported.items():
        yield from _contests(contests, earlier)
        earlier.add(number)


def _samples(bias: Any) -> Iterator[bool]:
    """Whether each sample is biased, or the only one."""
    if isinstance(bias, dict):
        samples = bias.get("samples")
        told = samples if isinstance(samples, list) else [bias.get("detected")]
        yield from (detected for detected in told if isinstance(detected, bool))


def _contests(contests: list[Any], earlier: set[int]) -> Iterator[bool]:
    """Whether each contest is biased, except those with participants whose details were read earlier: the details of
    all participants contain it, unless one has none.
    """
    for contest in contests:
        if isinstance(contest, dict) and isinstance(biased := contest.get("biased"), bool):
            others = contest.get("against")
            if isinstance(others, list) and all(isinstance(other, int) and other not in earlier for other in others):
                yield biased
