"""A grader, as a user holds it: what the service says of it, and what training frameworks call.

What is called scores with the version that the grader had when it was asked for: a reward does not change in the
middle of a training run. Handles and their rewards work wherever a trainer calls them: after a fork, from any event
loop, and, where they block, pickled into another process.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Self, TypeVar, Unpack

from pydantic import PrivateAttr

from gradebox.client import calls
from gradebox.client._async.scoring import AsyncScoring
from gradebox.client._async.versions import versions as async_versions
from gradebox.client._sync.scoring import Scoring
from gradebox.client._sync.versions import versions
from gradebox.client.threads import Thread
from gradebox.client.versions import Function, GraderOptions, update_call
from gradebox.outcome import Outcome
from gradebox.rewards import trl, verifiers, verl
from gradebox.rewards.together import AsyncTogether
from gradebox.schemas import Grader, Version

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

    def score(self, threads: Iterable[Thread]) -> list[Outcome]:
        """As `Client.score`, by this version."""
        return self._scoring.score(self.key, threads, self.version)

    def update(self, fn: Function | None = None, **options: Unpack[GraderOptions]) -> Self:
        """As `client.graders.update`. What it returns scores by the new version; this one stays with its own."""
        call = update_call(self.project, self.key, fn=fn, **options)
        return self.of(self._scoring.transport.send(call), self._scoring)

    def versions(self) -> list[Version]:
        """All versions with their sources."""
        return versions(self._scoring.transport, self.project, self.key)

    def delete(self) -> None:
        """Deletes the grader with its versions. Batches that run keep the version they began with."""
        self._scoring.transport.send(calls.delete_grader(self.project, self.key))

    def as_trl_reward(self, *, missing: trl.Missing | None = None) -> Callable[..., list[float | None]]:
        """A function for `reward_funcs` of TRL's trainers. The columns of the dataset become metadata of the threads.

        Args:
            missing: what a completion without a score has: "raise" raises ScoreMissing, "none" gives None, a number is
                taken as it is. By default None where the TRL that is installed leaves it out (1.6 and newer), and an
                exception where it would count as 0.0. Where all of a step have none, ScoreMissing is raised.
        """
        return trl.TrlReward(self.key, self.score, missing)

    def as_verl_compute_score(self, *, batched: bool = False) -> Callable[..., Any]:
        """A `compute_score` for verl, which raises ScoreMissing where there is no score.

        `batched` is for verl's reward manager "batch". Otherwise samples that verl scores at the same time go together.
        """
        return verl.VerlBatchReward(self.key, self.score) if batched else verl.VerlReward(self.key, self.score)

    def as_verifiers_reward(self) -> Callable[..., Awaitable[float]]:
        """A reward for a `Rubric`, or for a `Task` of verifiers, which raises ScoreMissing where there is no score.

        Rollouts that are scored at the same time go together.
        """

        async def score(threads: Threads) -> list[Outcome]:
            return await asyncio.to_thread(self.score, threads)

        return _named(_verifiers_reward(AsyncTogether(score)), self)


class AsyncGraderHandle(Grader):
    """A grader of the service, for code that awaits: its functions are coroutine functions, as all three allow."""

    _scoring: AsyncScoring = PrivateAttr()

    @classmethod
    def of(cls, grader: Grader, scoring: AsyncScoring) -> Self:
        """The grader with what scores by it."""
        handle = cls(**grader.model_dump())
        handle._scoring = scoring
        return handle

    async def score(self, threads: Iterable[Thread]) -> list[Outcome]:
        """As `AsyncClient.score`, by this version."""
        return await self._scoring.score(self.key, threads, self.version)

    async def update(self, fn: Function | None = None, **options: Unpack[GraderOptions]) -> Self:
        """As `GraderHandle.update`."""
        call = update_call(self.project, self.key, fn=fn, **options)
        return self.of(await self._scoring.transport.send(call), self._scoring)

    async def versions(self) -> list[Version]:
        """As `GraderHandle.versions`."""
        return await async_versions(self._scoring.transport, self.project, self.key)

    async def delete(self) -> None:
        """As `GraderHandle.delete`."""
        await self._scoring.transport.send(calls.delete_grader(self.project, self.key))

    def as_trl_reward(self, *, missing: trl.Missing | None = None) -> Callable[..., Awaitable[list[float | None]]]:
        """As `GraderHandle.as_trl_reward`. trl 0.29 awaits rewards, 0.25 does not."""
        policy = trl.RewardPolicy(self.key, missing)

        async def reward(
            *, prompts: Sequence[Any], completions: Sequence[Any], log_metric: Any = None, **columns: Any
        ) -> list[float | None]:
            return policy.rewards(await self.score(trl.threads(prompts, completions, columns)), log_metric)

        return _named(reward, self)

    def as_verl_compute_score(self) -> Callable[..., Awaitable[float]]:
        """As `GraderHandle.as_verl_compute_score`. verl awaits no function of many samples."""
        together = AsyncTogether(self.score)

        async def compute_score(
            data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **_more: Any
        ) -> float:
            outcome = await together.score(verl.thread(data_source, solution_str, ground_truth, extra_info))
            return verl.number(outcome)

        return _named(compute_score, self)

    def as_verifiers_reward(self) -> Callable[..., Awaitable[float]]:
        """As `GraderHandle.as_verifiers_reward`."""
        return _named(_verifiers_reward(AsyncTogether(self.score)), self)


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
