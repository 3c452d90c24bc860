"""A grader, as a user holds it: what the service says of it, and what training frameworks call.

What is called scores with the version that the grader had when it was asked for: a reward does not change in the
middle of a training run.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self, TypeVar

from pydantic import PrivateAttr

from gradebox.client.scoring import AsyncScoring, Scoring
from gradebox.outcome import Outcome
from gradebox.rewards import trl, verifiers, verl
from gradebox.rewards.together import AsyncTogether, Together
from gradebox.schemas import Grader

Threads = list[dict[str, Any]]

_F = TypeVar("_F", bound=Callable[..., Any])


class GraderHandle(Grader):
    """A grader of the service."""

    _scoring: Scoring = PrivateAttr()

    @classmethod
    def of(cls, grader: Grader, scoring: Scoring) -> Self:
        """The grader with what scores by it."""
        handle = cls(**grader.model_dump())
        handle._scoring = scoring
        return handle

    def as_trl_reward(self) -> Callable[..., list[float | None]]:
        """A function for `reward_funcs` of TRL's trainers. A completion without a score has None.

        The columns of the dataset become the metadata of the threads.
        """

        def reward(*, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
            return trl.rewards(self._score(trl.threads(prompts, completions, columns)))

        return _named(reward, self)

    def as_verl_compute_score(self, *, batched: bool = False) -> Callable[..., Any]:
        """A `compute_score` for verl, which raises ScoreMissing where there is no score.

        `batched` is for verl's reward manager "batch". Otherwise samples that verl scores at the same time go together.
        """
        together = Together(self._score)

        def compute_score(
            data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **_more: Any
        ) -> float:
            return verl.number(together.score(verl.thread(data_source, solution_str, ground_truth, extra_info)))

        def compute_scores(
            data_sources: Any, solution_strs: Any, ground_truths: Any, extra_infos: Any = None, **_more: Any
        ) -> list[float]:
            threads = verl.threads(data_sources, solution_strs, ground_truths, extra_infos)
            return [verl.number(outcome) for outcome in self._score(threads)]

        return _named(compute_scores, self) if batched else _named(compute_score, self)

    def as_verifiers_reward(self) -> Callable[..., Awaitable[float]]:
        """A reward for a `Rubric`, or for a `Task` of verifiers, which raises ScoreMissing where there is no score.

        Rollouts that are scored at the same time go together.
        """

        async def score(threads: Threads) -> list[Outcome]:
            return await asyncio.to_thread(self._score, threads)

        return _named(_verifiers_reward(AsyncTogether(score)), self)

    def _score(self, threads: Threads) -> list[Outcome]:
        return self._scoring.score(self.key, threads, self.version)


class AsyncGraderHandle(Grader):
    """A grader of the service, for code that awaits: its functions are coroutine functions, as all three allow."""

    _scoring: AsyncScoring = PrivateAttr()

    @classmethod
    def of(cls, grader: Grader, scoring: AsyncScoring) -> Self:
        """The grader with what scores by it."""
        handle = cls(**grader.model_dump())
        handle._scoring = scoring
        return handle

    def as_trl_reward(self) -> Callable[..., Awaitable[list[float | None]]]:
        """As `GraderHandle.as_trl_reward`."""

        async def reward(*, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
            return trl.rewards(await self._score(trl.threads(prompts, completions, columns)))

        return _named(reward, self)

    def as_verl_compute_score(self) -> Callable[..., Awaitable[float]]:
        """As `GraderHandle.as_verl_compute_score`. verl awaits no function of many samples."""
        together = AsyncTogether(self._score)

        async def compute_score(
            data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **_more: Any
        ) -> float:
            outcome = await together.score(verl.thread(data_source, solution_str, ground_truth, extra_info))
            return verl.number(outcome)

        return _named(compute_score, self)

    def as_verifiers_reward(self) -> Callable[..., Awaitable[float]]:
        """As `GraderHandle.as_verifiers_reward`."""
        return _named(_verifiers_reward(AsyncTogether(self._score)), self)

    async def _score(self, threads: Threads) -> list[Outcome]:
        return await self._scoring.score(self.key, threads, self.version)


def _verifiers_reward(together: AsyncTogether) -> Callable[..., Awaitable[float]]:
    # In the body of a class it becomes a method: `_owner` takes the object.
    async def reward(*_owner: Any, trace: Any = None, task: Any = None, state: Any = None, **columns: Any) -> float:
        if trace is not None:
            thread = verifiers.of_trace(trace, task)
        else:
            thread = verifiers.of_rubric({"task": task, **columns})
        return verifiers.number(await together.score(thread), state)

    return reward


def _named(function: _F, grader: Grader) -> _F:
    """Frameworks log a reward under its function's name."""
    named: Any = function
    named.__name__ = named.__qualname__ = grader.key
    return function
