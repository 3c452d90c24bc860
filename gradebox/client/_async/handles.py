"""Handles of graders: the service's record of a grader, with methods that score and rewards for training frameworks.

A handle scores with the version that was the newest when the handle was created, so that a reward does not change
during a training run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack

from pydantic import PrivateAttr

from gradebox.client.reward_functions import AsyncRewardFunctions
from gradebox.client.thread_line import Thread
from gradebox.client.versions import Function, UpdateOptions, check_options
from gradebox.frame import Outcomes
from gradebox.schemas import GraderRecord, Version

if TYPE_CHECKING:
    from gradebox.client._async.graders import AsyncGraders


class AsyncGraderHandle(GraderRecord, AsyncRewardFunctions):
    """A grader of the service. It scores with the version in `version`."""

    _graders: AsyncGraders = PrivateAttr()

    @classmethod
    def of(cls, grader: GraderRecord, graders: AsyncGraders) -> AsyncGraderHandle:
        """A handle for one of these graders."""
        handle = cls(**grader.model_dump())
        handle._graders = graders
        return handle

    def __hash__(self) -> int:
        return hash((self.project, self.key, self.version))

    def _reward_name(self) -> str:
        return self.key

    def _takes_groups(self) -> bool:
        return self.groups

    async def score(self, threads: Iterable[Thread]) -> Outcomes:
        """As `client.score`, with this version."""
        return await self._graders.score(self.key, threads, self.version)

    async def _score_by_workers(self, threads: Iterable[Thread]) -> Outcomes:
        [outcomes] = await self._graders.score_by_workers(self, threads)
        return outcomes

    async def update(self, fn: Function | None = None, **options: Unpack[UpdateOptions]) -> AsyncGraderHandle:
        """As `client.graders.update`. The returned handle scores with the new version, this one with the old one."""
        check_options(options)
        return await self._graders.update(self.key, fn=fn, **options)

    async def versions(self) -> list[Version]:
        """All versions with their sources, oldest first."""
        return await self._graders.versions(self.key)

    async def delete(self) -> None:
        """Deletes the grader with its versions. Running batches continue with the version that they started with."""
        await self._graders.delete(self.key)
