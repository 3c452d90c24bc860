"""Reward functions for training frameworks.

They work after a fork and from any event loop. The blocking ones can also be pickled into another process.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from gradebox.client.daemon_call import start_call
from gradebox.client.thread_line import Thread
from gradebox.outcome import Outcome
from gradebox.rewards import groups, trl, verifiers, verl
from gradebox.rewards.collected_calls import AsyncCollectedCalls

Columns = Collection[str] | None
_Threads = list[dict[str, Any]]

_F = TypeVar("_F", bound=Callable[..., Any])


class NamedReward(ABC):
    """The name of a reward, and what it accepts."""

    @abstractmethod
    def _reward_name(self) -> str: ...

    def _reward_parts(self) -> Sequence[str]:
        """The keys of the graders, if the reward combines several."""
        return ()

    def _takes_groups(self) -> bool:
        """Whether the grader scores groups of threads."""
        return False

    def _refuse_groups(self, caller: str, advice: str) -> None:
        """Raises ValueError if the grader takes groups, which this caller cannot pass."""
        if self._takes_groups():
            raise ValueError(
                f"grader {self._reward_name()!r} takes groups of completions, and {caller} gives it one at a time: "
                f"{advice}"
            )


class RewardFunctions(NamedReward):
    """Reward functions that block."""

    @abstractmethod
    def score(self, threads: Iterable[Thread]) -> list[Outcome]:
        """Scores threads, and returns an outcome for each, in order."""

    @abstractmethod
    def _score_by_workers(self, threads: Iterable[Thread]) -> list[Outcome]:
        """As `score`, in a batch."""

    def as_trl_reward(
        self, *, missing: trl.Missing | None = None, columns: Columns = None, by_workers: bool = False
    ) -> Callable[..., list[float | None]]:
        """A function for `reward_funcs` of TRL's trainers. The columns of the dataset become metadata of the threads.

        A grader of groups receives the generations of a prompt together.

        Args:
            missing: the reward of a completion with an error: "raise" raises ScoreMissing, "none" gives None, and a
                finite number is used as the reward. By default it is None if the trainer is known to ignore None (TRL
                1.6 and newer, GRPO or RLOO, no other reward function), and otherwise an exception. If no completion of
                a step has a reward, ScoreMissing is raised. A completion to which the grader does not apply has None
                with GRPO or RLOO of TRL 1.6 and newer, also beside other reward functions; otherwise it is treated as
                one with an error.
            columns: the columns of the dataset that are sent; by default all.
            by_workers: whether each step is scored as a batch, which the workers of all machines share and which may
                take any time; by default the machine of the API scores, for at most ten minutes.
        """
        policy = trl.RewardPolicy(self._reward_name(), missing, self._reward_parts())
        return trl.TrlReward(
            self._scoring(by_workers), policy, self._reward_name(), _names(columns), self._takes_groups()
        )

    def as_verl_compute_score(
        self, *, batched: bool = False, columns: Columns = None, by_workers: bool = False
    ) -> Callable[..., Any]:
        """A `compute_score` for verl. It raises ScoreMissing if there is no score.

        A grader of groups receives the generations of a prompt together, which have the same "uid" in `extra_info`, or
        the same "index". It needs `batched`.

        Args:
            batched: for verl's reward manager "batch". Otherwise samples that verl scores at the same time are sent in
                one request.
            columns: which members of `extra_info`, and which of "data_source" and "ground_truth", are sent; by default
                all. A sample that lacks one of them raises ValueError.
            by_workers: as for `as_trl_reward`; samples that verl scores at the same time are one batch.
        """
        score = self._scoring(by_workers)
        if batched:
            return verl.VerlBatchReward(self._reward_name(), score, _names(columns), self._takes_groups())
        self._refuse_groups("verl", 'use as_verl_compute_score(batched=True) with the reward manager "batch"')
        return verl.VerlReward(self._reward_name(), score, _names(columns))

    def as_verifiers_reward(
        self, *, columns: Columns = None, by_workers: bool = False
    ) -> Callable[..., Awaitable[float]]:
        """A reward for a `Rubric` or a `Task` of verifiers. It raises ScoreMissing if there is no score.

        Rollouts that are scored at the same time are sent in one request.

        Args:
            columns: the columns that are sent; by default all.
            by_workers: as for `as_trl_reward`; rollouts that are scored at the same time are one batch.
        """
        self._refuse_groups("verifiers", "use a grader of single threads")
        score = partial(_in_thread, self._scoring(by_workers))
        return verifiers.VerifiersReward(self._reward_name(), score, _names(columns))

    def _scoring(self, by_workers: bool) -> Callable[[Iterable[Thread]], list[Outcome]]:
        return self._score_by_workers if by_workers else self.score


class AsyncRewardFunctions(NamedReward):
    """Reward functions that are coroutine functions, which all three frameworks allow."""

    @abstractmethod
    async def score(self, threads: Iterable[Thread]) -> list[Outcome]:
        """Scores threads, and returns an outcome for each, in order."""

    @abstractmethod
    async def _score_by_workers(self, threads: Iterable[Thread]) -> list[Outcome]:
        """As `score`, in a batch."""

    def as_trl_reward(
        self, *, missing: trl.Missing | None = None, columns: Columns = None, by_workers: bool = False
    ) -> Callable[..., Awaitable[list[float | None]]]:
        """As `RewardFunctions.as_trl_reward`. trl 0.29 awaits rewards, 0.25 does not."""
        policy = trl.RewardPolicy(self._reward_name(), missing, self._reward_parts())
        only, score = _names(columns), self._scoring(by_workers)

        async def reward(*, prompts: Sequence[Any], completions: Sequence[Any], **more: Any) -> list[float | None]:
            rows = trl.threads(prompts, completions, more, only)
            if not self._takes_groups():
                return policy.rewards(await score(rows), more)
            places = trl.generations(prompts, more)
            return policy.rewards(groups.of_each(await score(groups.lines(rows, places)), places), more)

        return _named(reward, self._reward_name())

    def as_verl_compute_score(
        self, *, columns: Columns = None, by_workers: bool = False
    ) -> Callable[..., Awaitable[float]]:
        """As `RewardFunctions.as_verl_compute_score`, but not `batched`: verl awaits only functions of one sample."""
        self._refuse_groups("verl", "use gradebox.Client, and as_verl_compute_score(batched=True)")
        collected, only = AsyncCollectedCalls(self._scoring(by_workers)), _names(columns)

        async def compute_score(
            data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **_more: Any
        ) -> float:
            sample = verl.thread(data_source, solution_str, ground_truth, extra_info, only)
            return verl.number(await collected.score(sample))

        return _named(compute_score, self._reward_name())

    def as_verifiers_reward(
        self, *, columns: Columns = None, by_workers: bool = False
    ) -> Callable[..., Awaitable[float]]:
        """As `RewardFunctions.as_verifiers_reward`."""
        self._refuse_groups("verifiers", "use a grader of single threads")
        return verifiers.VerifiersReward(self._reward_name(), self._scoring(by_workers), _names(columns))

    def _scoring(self, by_workers: bool) -> Callable[[Iterable[Thread]], Coroutine[Any, Any, list[Outcome]]]:
        return self._score_by_workers if by_workers else self.score


async def _in_thread(score: Callable[[_Threads], list[Outcome]], threads: _Threads) -> list[Outcome]:
    return await asyncio.wrap_future(start_call(partial(score, threads)))


def _names(columns: Columns) -> Columns:
    if isinstance(columns, str):
        raise TypeError(f"columns={columns!r} is one text: pass a list of names, columns=[{columns!r}]")
    return columns


def _named(function: _F, name: str) -> _F:
    """Renames a function, since frameworks log a reward under the name of its function."""
    named: Any = function
    named.__name__ = named.__qualname__ = name
    return function
