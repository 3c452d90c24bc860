"""Whether a judge that asked in both orders decided otherwise in the other, as the details of an outcome say."""

from collections.abc import Iterator
from typing import Any

from gradebox.outcome import Outcome


def decisions(outcome: Outcome) -> Iterator[bool]:
    """Of each decision that was made in both orders, whether they differ. Details are a grader's own, so they may be
    anything.
    """
    if outcome.details is not None:
        bias = outcome.details.get("positional_bias")
        if isinstance(bias, dict) and isinstance(bias.get("detected"), bool):
            yield bias["detected"]
    for number, one in enumerate(outcome.scores or (), 1):
        if one.details is not None:
            yield from _contests(one.details.get("contests"), number)


def _contests(contests: Any, number: int) -> Iterator[bool]:
    """Each contest once: it stands in the details of all who took part."""
    for contest in contests if isinstance(contests, list) else ():
        if isinstance(contest, dict) and isinstance(biased := contest.get("biased"), bool):
            others = contest.get("against")
            if isinstance(others, list) and all(isinstance(other, int) and other > number for other in others):
                yield biased
