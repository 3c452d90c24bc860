# Made from gradebox/client/_async by scripts/unasync. Do not edit it: edit what it is made from.
"""Handles of graders: the service's record of a grader, with methods that score and rewards for training frameworks.

A handle scores with the version that was the newest when the handle was created, so that a reward does not change
during a training run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack

from pydantic import PrivateAttr

from gradebox.client.reward_functions import RewardFunctions
from gradebox.client.thread_line import Thread
from gradebox.client.versions import Function, UpdateOptions, check_options
from gradebox.frame import Outcomes
from gradebox.schemas import GraderRecord, Version

if TYPE_CHECKING:
    from gradebox.client._sync.graders import Graders


class GraderHandle(GraderRecord, RewardFunctions):
    """A grader of the service. It scores with the version in `version`."""

    _graders: Graders = PrivateAttr()

    @classmethod
    def of(cls, grader: GraderRecord, graders: Graders) -> GraderHandle:
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

    def score(self, threads: Iterable[Thread]) -> Outcomes:
        """As `client.score`, with this version."""
        return self._graders.score(self.key, threads, self.version)

    def _score_by_workers(self, threads: Iterable[Thread]) -> Outcomes:
        [outcomes] = self._graders.score_by_workers(self, threads)
        return outcomes

    def update(self, fn: Function | None = None, **options: Unpack[UpdateOptions]) -> GraderHandle:
        """As `client.graders.update`. The returned handle scores with the new version, this one with the old one."""
        check_options(options)
        return self._graders.update(self.key, fn=fn, **options)

    def versions(self) -> list[Version]:
        """All versions with their sources, oldest first."""
        return self._graders.versions(self.key)

    def delete(self) -> None:
        """Deletes the grader with its versions. Running batches continue with the version that they started with."""
        self._graders.delete(self.key)
