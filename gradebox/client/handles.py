"""Handles of graders: the service's record of a grader, with methods that score and rewards for training frameworks.

A handle scores with the version that was the newest when the handle was created, so that a reward does not change
during a training run.
"""

from collections.abc import Iterable
from typing import Self, Unpack

from pydantic import PrivateAttr

from gradebox.client import calls
from gradebox.client._async.scoring import AsyncScoring
from gradebox.client._async.versions import environment_of as async_environment_of
from gradebox.client._async.versions import versions as async_versions
from gradebox.client._sync.scoring import Scoring
from gradebox.client._sync.versions import environment_of, versions
from gradebox.client.reward_functions import AsyncRewardFunctions, NamedReward, RewardFunctions
from gradebox.client.threads import Thread
from gradebox.client.versions import Function, UpdateOptions, check_options, update_call
from gradebox.frame import Outcomes
from gradebox.schemas import GraderRecord, Version


class _Record(GraderRecord, NamedReward):
    def __hash__(self) -> int:
        return hash((self.project, self.key, self.version))

    def _reward_name(self) -> str:
        return self.key

    def _takes_groups(self) -> bool:
        return self.groups


class GraderHandle(_Record, RewardFunctions):
    """A grader of the service. It scores with the version in `version`."""

    _scoring: Scoring = PrivateAttr()

    @classmethod
    def of(cls, grader: GraderRecord, scoring: Scoring) -> Self:
        """A handle for a grader that scores through `scoring`."""
        handle = cls(**grader.model_dump())
        handle._scoring = scoring
        return handle

    def score(self, threads: Iterable[Thread]) -> Outcomes:
        """As `Client.score`, with this version."""
        return self._scoring.score(self.key, threads, self.version)

    def update(self, fn: Function | None = None, **options: Unpack[UpdateOptions]) -> Self:
        """As `client.graders.update`. The returned handle scores with the new version, this one with the old one."""
        check_options(options)
        asked = options.get("environment")
        options["environment"] = environment_of(self._scoring.transport, self.project, self.key, fn, asked)
        call = update_call(self.project, self.key, fn=fn, **options)
        return self.of(self._scoring.transport.send(call), self._scoring)

    def versions(self) -> list[Version]:
        """All versions with their sources, oldest first."""
        return versions(self._scoring.transport, self.project, self.key)

    def delete(self) -> None:
        """Deletes the grader with its versions. Running batches continue with the version that they started with."""
        self._scoring.transport.send(calls.graders.delete(self.project, self.key))


class AsyncGraderHandle(_Record, AsyncRewardFunctions):
    """As `GraderHandle`, for asynchronous code. Its rewards are coroutine functions, as all three frameworks allow."""

    _scoring: AsyncScoring = PrivateAttr()

    @classmethod
    def of(cls, grader: GraderRecord, scoring: AsyncScoring) -> Self:
        """A handle for a grader that scores through `scoring`."""
        handle = cls(**grader.model_dump())
        handle._scoring = scoring
        return handle

    async def score(self, threads: Iterable[Thread]) -> Outcomes:
        """As `AsyncClient.score`, with this version."""
        return await self._scoring.score(self.key, threads, self.version)

    async def update(self, fn: Function | None = None, **options: Unpack[UpdateOptions]) -> Self:
        """As `GraderHandle.update`."""
        check_options(options)
        asked = options.get("environment")
        options["environment"] = await async_environment_of(self._scoring.transport, self.project, self.key, fn, asked)
        call = update_call(self.project, self.key, fn=fn, **options)
        return self.of(await self._scoring.transport.send(call), self._scoring)

    async def versions(self) -> list[Version]:
        """As `GraderHandle.versions`."""
        return await async_versions(self._scoring.transport, self.project, self.key)

    async def delete(self) -> None:
        """As `GraderHandle.delete`."""
        await self._scoring.transport.send(calls.graders.delete(self.project, self.key))
