"""What training frameworks call, of whatever scores threads. It works wherever a trainer calls it: after a fork, from
any event loop, and, where it blocks, pickled into another process.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

from gradebox.client.threads import Thread
from gradebox.outcome import Outcome
from gradebox.rewards import groups, trl, verifiers, verl
from gradebox.rewards.together import AsyncTogether

Columns = Collection[str] | None

_F = TypeVar("_F", bound=Callable[..., Any])
_Threads = list[dict[str, Any]]


class _Named(ABC):
    """What frameworks log it as."""

    @abstractmethod
    def _reward_name(self) -> str: ...

    def _reward_parts(self) -> Sequence[str]:
        """The keys of its graders, where it is made of several."""
        return ()

    def _takes_groups(self) -> bool:
        """Whether a line of what it scores is a group."""
        return False

    def _refuse_groups(self, caller: str, advice: str) -> None:
        """Raises ValueError where it takes groups, which this caller does not have."""
        if self._takes_groups():
            raise ValueError(
                f"grader {self._reward_name()!r} takes groups of completions, and {caller} gives it one at a time: "
                f"{advice}"
            )


class RewardFunctions(_Named):
    """Of what scores while the caller waits."""

    @abstractmethod
    def score(self, threads: Iterable[Thread]) -> list[Outcome]:
        """An outcome for each thread, in order."""

    def as_trl_reward(
        self, *, missing: trl.Missing | None = None, columns: Columns = None
    ) -> Callable[..., list[float | None]]:
        """A function for `reward_funcs` of TRL's trainers. The columns of the dataset become metadata of the threads.

        Args:
            missing: what a completion with an error has: "raise" raises ScoreMissing, "none" gives None, a number is
                taken as it is. By default None where the trainer is known to leave it out (TRL 1.6 and newer, GRPO or
                RLOO, no other reward function), and an exception where it would count as 0.0. Where all of a step have
                none, ScoreMissing is raised. A completion that the grader does not apply to has None with GRPO or RLOO
                of TRL 1.6 and newer, also beside other reward functions; elsewhere it has what one with an error has.
            columns: those of the dataset that are sent; by default all of them.

        A grader of groups is given the generations of a prompt together.
        """
        policy = trl.RewardPolicy(self._reward_name(), missing, self._reward_parts())
        return trl.TrlReward(self.score, policy, self._reward_name(), columns, self._takes_groups())

    def as_verl_compute_score(self, *, batched: bool = False, columns: Columns = None) -> Callable[..., Any]:
        """A `compute_score` for verl, which raises ScoreMissing where there is no score.

        `batched` is for verl's reward manager "batch". Otherwise samples that verl scores at the same time go together.
        `columns` are the members of `extra_info` that are sent, and "data_source" and "ground_truth"; by default all.

        A grader of groups is given the generations of a prompt together: of the same "uid" in `extra_info`, or of the
        same "index". It needs `batched`.
        """
        if batched:
            return verl.VerlBatchReward(self._reward_name(), self.score, columns, self._takes_groups())
        self._refuse_groups("verl", 'use as_verl_compute_score(batched=True) with the reward manager "batch"')
        return verl.VerlReward(self._reward_name(), self.score, columns)

    def as_verifiers_reward(self, *, columns: Columns = None) -> Callable[..., Awaitable[float]]:
        """A reward for a `Rubric`, or for a `Task` of verifiers, which raises ScoreMissing where there is no score.

        Rollouts that are scored at the same time go together. `columns` are those that are sent; by default all.
        """

        self._refuse_groups("verifiers", "use a grader of single threads")

        async def score(threads: _Threads) -> list[Outcome]:
            return await asyncio.to_thread(self.score, threads)

        return _named(_verifiers_reward(AsyncTogether(score), columns), self._reward_name())


class AsyncRewardFunctions(_Named):
    """Of what is awaited: coroutine functions, as all three frameworks allow."""

    @abstractmethod
    async def score(self, threads: Iterable[Thread]) -> list[Outcome]:
        """An outcome for each thread, in order."""

    def as_trl_reward(
        self, *, missing: trl.Missing | None = None, columns: Columns = None
    ) -> Callable[..., Awaitable[list[float | None]]]:
        """As `RewardFunctions.as_trl_reward`. trl 0.29 awaits rewards, 0.25 does not."""
        policy = trl.RewardPolicy(self._reward_name(), missing, self._reward_parts())

        async def reward(*, prompts: Sequence[Any], completions: Sequence[Any], **more: Any) -> list[float | None]:
            rows = trl.threads(prompts, completions, more, columns)
            if not self._takes_groups():
                return policy.rewards(await self.score(rows), more)
            places = trl.generations(prompts, more)
            return policy.rewards(groups.of_each(await self.score(groups.lines(rows, places)), places), more)

        return _named(reward, self._reward_name())

    def as_verl_compute_score(self, *, columns: Columns = None) -> Callable[..., Awaitable[float]]:
        """As `RewardFunctions.as_verl_compute_score`. verl awaits no function of many samples."""
        self._refuse_groups("verl", "use gradebox.Client, and as_verl_compute_score(batched=True)")
        together = AsyncTogether(self.score)

        async def compute_score(
            data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **_more: Any
        ) -> float:
            sample = verl.thread(data_source, solution_str, ground_truth, extra_info, columns)
            return verl.number(await together.score(sample))

        return _named(compute_score, self._reward_name())

    def as_verifiers_reward(self, *, columns: Columns = None) -> Callable[..., Awaitable[float]]:
        """As `RewardFunctions.as_verifiers_reward`."""
        self._refuse_groups("verifiers", "use a grader of single threads")
        return _named(_verifiers_reward(AsyncTogether(self.score), columns), self._reward_name())


def _verifiers_reward(together: AsyncTogether, columns: Columns) -> Callable[..., Awaitable[float]]:
    # In the body of a class it becomes a method: `_owner` takes the object.
    async def reward(*_owner: Any, trace: Any = None, task: Any = None, state: Any = None, **more: Any) -> float:
        if trace is not None:
            thread = verifiers.of_trace(trace, task, columns)
        else:
            thread = verifiers.of_rubric({"task": task, **more}, columns)
        return verifiers.number(await together.score(thread), state)

    return reward


def _named(function: _F, name: str) -> _F:
    """Frameworks log a reward under its function's name."""
    named: Any = function
    named.__name__ = named.__qualname__ = name
    return function
