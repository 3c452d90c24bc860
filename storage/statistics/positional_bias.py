"""Positional bias, from the details of outcomes: whether a judge that asked in both orders decided differently."""

from collections.abc import Iterator
from typing import Any

from gradebox.outcome import Detailed, completion_details_of, details_of


def decisions(outcome: Detailed) -> Iterator[bool]:
    """For each decision made in both orders, whether the two differ. A grader's details may contain anything."""
    if (details := details_of(outcome)) is not None:
        yield from _samples(details.get("positional_bias"))
        return
    lists = [(details or {}).get("contests") for details in completion_details_of(outcome)]
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
