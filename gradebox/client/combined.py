"""One score for each thread from several graders."""

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import fsum

from gradebox.client._async.scoring import AsyncScoring
from gradebox.client._sync.scoring import Scoring
from gradebox.client.reward_functions import AsyncRewardFunctions, RewardFunctions
from gradebox.client.threads import Thread, each_of
from gradebox.frame import Outcomes
from gradebox.outcome import Outcome, OutcomeError, sum_of
from gradebox.schemas import BatchGrader


class Reward(RewardFunctions):
    """The weighted sum of the scores of several graders. `Client.reward` creates it.

    Attributes:
        graders: the graders with their weights and the versions that they had when the reward was created.
        name: the name under which trainers log the reward.
    """

    def __init__(self, graders: Sequence[BatchGrader], name: str, scoring: Scoring) -> None:
        self.graders = graders
        self.name = name
        self._scoring = scoring

    def score(self, threads: Iterable[Thread]) -> Outcomes:
        """Scores threads with all graders, and returns a combined outcome for each thread, in order.

        The outcome has the combined score, and the graders' scores as its `values`. If a grader gave no score, the
        outcome has none: its error is that of the first grader with an error; if no grader has an error, the outcome is
        not applicable.
        """
        same = list(each_of(threads))
        with ThreadPoolExecutor(len(self.graders)) as pool:
            parts = pool.map(lambda one: self._scoring.score(one.key, same, one.version), self.graders)
            return combined(self.name, self.graders, list(parts))

    def _reward_name(self) -> str:
        return self.name

    def _reward_parts(self) -> Sequence[str]:
        return [one.key for one in self.graders]


class AsyncReward(AsyncRewardFunctions):
    """As `Reward`, for asynchronous code."""

    def __init__(self, graders: Sequence[BatchGrader], name: str, scoring: AsyncScoring) -> None:
        self.graders = graders
        self.name = name
        self._scoring = scoring

    async def score(self, threads: Iterable[Thread]) -> Outcomes:
        """As `Reward.score`."""
        same = list(each_of(threads))
        parts = await asyncio.gather(*(self._scoring.score(one.key, same, one.version) for one in self.graders))
        return combined(self.name, self.graders, parts)

    def _reward_name(self) -> str:
        return self.name

    def _reward_parts(self) -> Sequence[str]:
        return [one.key for one in self.graders]


def combined(name: str, graders: Sequence[BatchGrader], parts: Sequence[Sequence[Outcome]]) -> Outcomes:
    """Combines the outcomes of each grader into one outcome for each thread."""
    return Outcomes(_combined(name, graders, outcomes) for outcomes in zip(*parts, strict=True))


def _combined(name: str, graders: Sequence[BatchGrader], outcomes: Sequence[Outcome]) -> Outcome:
    values: dict[str, float] = {}
    scored: list[float] = []
    missing: list[tuple[str, OutcomeError]] = []
    passed_over = [f"{one.grader}: {one.not_applicable}" for one in outcomes if one.not_applicable is not None]
    spent = [one.spent for one in outcomes if one.spent is not None]
    for one, outcome in zip(graders, outcomes, strict=True):
        values |= {f"{one.key}/{part}": value for part, value in (outcome.values or {}).items()}
        if outcome.score is not None:
            values[one.key] = outcome.score
            scored.append(one.weight * outcome.score)
        elif outcome.error is not None:
            missing.append((outcome.grader, outcome.error))
    error = None
    if missing:
        grader, first = missing[0]
        retryable = all(each.retryable for _, each in missing) and not passed_over
        error = OutcomeError(first.kind, f"{grader}: {first.message}", retryable, first.cause, first.reply)
    said = [f"{one.key}: {outcome.reason}" for one, outcome in zip(graders, outcomes, strict=True) if outcome.reason]
    return Outcome(
        outcomes[0].index,
        name,
        fsum(scored) if len(scored) == len(graders) else None,
        sum(outcome.run_ms for outcome in outcomes),
        outcomes[0].id,
        "\n".join(said) or None,
        error,
        None,
        values or None,
        outcomes[0].no_completion,
        "\n".join(passed_over) if passed_over and error is None else None,
        spent=sum_of(spent) if spent else None,
    )
