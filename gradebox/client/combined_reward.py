"""One score for each thread from several graders."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from gradebox import combination
from gradebox.client.daemon_call import start_call
from gradebox.client.grader_names import GraderChoice, weights_of
from gradebox.client.reward_functions import AsyncRewardFunctions, NamedReward, RewardFunctions
from gradebox.client.thread_line import Thread
from gradebox.client.threads import each_of
from gradebox.frame import Outcomes
from gradebox.outcome import Outcome, sum_of
from gradebox.schemas import BatchGrader, GraderRecord

if TYPE_CHECKING:
    from gradebox.client._async.graders import AsyncGraders
    from gradebox.client._sync.graders import Graders


class _Combination(NamedReward):
    def __init__(self, graders: Sequence[BatchGrader], name: str, collection: Any) -> None:
        """`collection` scores. Raises ValueError if a version of a grader is named twice."""
        labels = [str(grader) for grader in graders]
        if repeated := [label for label in labels if labels.count(label) > 1]:
            raise ValueError(f"the grader {repeated[0]} is named twice: name it once")
        self.graders = graders
        self.name = name
        self._collection = collection

    def _reward_name(self) -> str:
        return self.name

    def _reward_parts(self) -> Sequence[str]:
        return _names(self.graders)

    def _labels(self) -> list[str]:
        return [str(grader) for grader in self.graders]


class Reward(_Combination, RewardFunctions):
    """The weighted sum of the scores of several graders. `Client.reward` creates it.

    Attributes:
        graders: the graders with their weights and the versions that they had when the reward was created.
        name: the name under which trainers log the reward.
    """

    _collection: Graders

    def score(self, threads: Iterable[Thread]) -> Outcomes:
        """Scores threads with all graders, and returns a combined outcome for each thread, in order.

        The outcome has the combined score, and the graders' scores as its `values`. If a grader gave no score, the
        outcome has none: its error is that of the first grader with an error; if no grader has an error, the outcome is
        not applicable. A sum that is not finite is an error too.
        """
        same = list(each_of(threads))
        calls = [start_call(partial(self._collection.score, one.key, same, one.version)) for one in self.graders]
        return combined(self.name, self.graders, [call.result() for call in calls])

    def _score_by_workers(self, threads: Iterable[Thread]) -> Outcomes:
        return combined(self.name, self.graders, self._collection.score_by_workers(self._labels(), threads))


class AsyncReward(_Combination, AsyncRewardFunctions):
    """As `Reward`, for asynchronous code."""

    _collection: AsyncGraders

    async def score(self, threads: Iterable[Thread]) -> Outcomes:
        """As `Reward.score`."""
        same = list(each_of(threads))
        parts = await asyncio.gather(*(self._collection.score(one.key, same, one.version) for one in self.graders))
        return combined(self.name, self.graders, parts)

    async def _score_by_workers(self, threads: Iterable[Thread]) -> Outcomes:
        return combined(self.name, self.graders, await self._collection.score_by_workers(self._labels(), threads))


def weights_of_reward(graders: GraderChoice) -> dict[str, float]:
    """The graders of a reward, each with its weight. Raises ValueError if there is none, or a weight is not finite."""
    chosen = weights_of(graders)
    if not chosen:
        raise ValueError("name at least one grader")
    if not all(map(isfinite, chosen.values())):
        raise ValueError("a weight is a finite number")
    return chosen


def part_of(grader: GraderRecord, version: int | None, weight: float) -> BatchGrader:
    """A part of a reward, by default with the newest version. Raises ValueError if the grader takes groups."""
    if grader.groups:
        raise ValueError(
            f"grader {grader.key!r} takes groups of completions, and a reward of several scores single threads: give "
            "the trainer its own reward beside this one"
        )
    return BatchGrader(key=grader.key, version=version or grader.version, weight=weight)


def combined(name: str, graders: Sequence[BatchGrader], parts: Sequence[Sequence[Outcome]]) -> Outcomes:
    """Combines the outcomes of each grader into one outcome for each thread."""
    return Outcomes(_combined(name, graders, outcomes) for outcomes in zip(*parts, strict=True))


def _names(graders: Sequence[BatchGrader]) -> list[str]:
    """The keys of the graders; with the version, if several are versions of one grader."""
    keys = [one.key for one in graders]
    return [one.key if keys.count(one.key) == 1 else str(one) for one in graders]


def _combined(name: str, graders: Sequence[BatchGrader], outcomes: Sequence[Outcome]) -> Outcome:
    values: dict[str, float] = {}
    spent = [one.spent for one in outcomes if one.spent is not None]
    names = _names(graders)
    for part, outcome in zip(names, outcomes, strict=True):
        values |= {f"{part}/{value}": number for value, number in (outcome.values or {}).items()}
        if outcome.score is not None:
            values[part] = outcome.score
    said = [f"{part}: {outcome.reason}" for part, outcome in zip(names, outcomes, strict=True) if outcome.reason]
    return replace(
        combination.combined(name, [one.weight for one in graders], outcomes),
        reason="\n".join(said) or None,
        values=values or None,
        spent=sum_of(spent) if spent else None,
    )
