"""A grader, as a user holds it: what the service says of it, and what training frameworks call.

What is called scores with the version that the grader had when it was asked for: a reward does not change in the
middle of a training run.
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
from gradebox.client.reward_functions import AsyncRewardFunctions, RewardFunctions
from gradebox.client.threads import Thread
from gradebox.client.versions import Function, UpdateOptions, update_call
from gradebox.frame import Outcomes
from gradebox.schemas import GraderRecord, Version


class GraderHandle(GraderRecord, RewardFunctions):
    """A grader of the service."""

    _scoring: Scoring = PrivateAttr()

    @classmethod
    def of(cls, grader: GraderRecord, scoring: Scoring) -> Self:
        """The grader with what scores by it."""
        handle = cls(**grader.model_dump())
        handle._scoring = scoring
        return handle

    def score(self, threads: Iterable[Thread]) -> Outcomes:
        """As `Client.score`, by this version."""
        return self._scoring.score(self.key, threads, self.version)

    def update(self, fn: Function | None = None, **options: Unpack[UpdateOptions]) -> Self:
        """As `client.graders.update`. What it returns scores by the new version; this one stays with its own."""
        asked = options.get("environment")
        options["environment"] = environment_of(self._scoring.transport, self.project, self.key, fn, asked)
        call = update_call(self.project, self.key, fn=fn, **options)
        return self.of(self._scoring.transport.send(call), self._scoring)

    def versions(self) -> list[Version]:
        """All versions with their sources."""
        return versions(self._scoring.transport, self.project, self.key)

    def delete(self) -> None:
        """Deletes the grader with its versions. Batches that run keep the version they began with."""
        self._scoring.transport.send(calls.delete_grader(self.project, self.key))

    def _reward_name(self) -> str:
        return self.key

    def _takes_groups(self) -> bool:
        return self.groups


class AsyncGraderHandle(GraderRecord, AsyncRewardFunctions):
    """A grader of the service, for code that awaits: its functions are coroutine functions, as all three allow."""

    _scoring: AsyncScoring = PrivateAttr()

    @classmethod
    def of(cls, grader: GraderRecord, scoring: AsyncScoring) -> Self:
        """The grader with what scores by it."""
        handle = cls(**grader.model_dump())
        handle._scoring = scoring
        return handle

    async def score(self, threads: Iterable[Thread]) -> Outcomes:
        """As `AsyncClient.score`, by this version."""
        return await self._scoring.score(self.key, threads, self.version)

    async def update(self, fn: Function | None = None, **options: Unpack[UpdateOptions]) -> Self:
        """As `GraderHandle.update`."""
        asked = options.get("environment")
        options["environment"] = await async_environment_of(self._scoring.transport, self.project, self.key, fn, asked)
        call = update_call(self.project, self.key, fn=fn, **options)
        return self.of(await self._scoring.transport.send(call), self._scoring)

    async def versions(self) -> list[Version]:
        """As `GraderHandle.versions`."""
        return await async_versions(self._scoring.transport, self.project, self.key)

    async def delete(self) -> None:
        """As `GraderHandle.delete`."""
        await self._scoring.transport.send(calls.delete_grader(self.project, self.key))

    def _reward_name(self) -> str:
        return self.key

    def _takes_groups(self) -> bool:
        return self.groups
