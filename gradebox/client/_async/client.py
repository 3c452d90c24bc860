"""The client class."""

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from gradebox.client import grader_names
from gradebox.client._async.batch_handle import AsyncBatchHandle
from gradebox.client._async.batches import AsyncBatches
from gradebox.client._async.budget import AsyncBudget
from gradebox.client._async.endpoints import AsyncEndpoints
from gradebox.client._async.environments import AsyncEnvironments
from gradebox.client._async.graders import AsyncGraders
from gradebox.client._async.keys import AsyncKeys, AsyncProjects
from gradebox.client._async.models import AsyncModels
from gradebox.client._async.transport import AsyncTransport
from gradebox.client.calls import access_calls, batch_calls, server_calls
from gradebox.client.combined_reward import AsyncReward, part_of, weights_of_reward
from gradebox.client.dataset_rows import Columns
from gradebox.client.grader_names import GraderChoice, OneGrader
from gradebox.client.rules import RETRY_S, Rules
from gradebox.client.thread_line import Thread
from gradebox.frame import Outcomes
from gradebox.schemas import ApiKey, AuditLine, ProjectSpending
from gradebox.schemas.agreement import Agreement
from gradebox.schemas.comparison import Comparison

TIMEOUT_S = 30.0


def _id(batch: str | AsyncBatchHandle) -> str:
    return batch if isinstance(batch, str) else batch.id


class AsyncClient:
    """The client of a gradebox service. Close it, or use it as a context manager.

    Threads may share a `Client`, and event loops an `AsyncClient`.

    Attributes:
        url: the URL of the service.
        graders, batches, environments, models, endpoints, budget: those of the client's project.
        keys, projects: those of the service; for API keys that manage every project.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        project: str = "default",
        timeout: float = TIMEOUT_S,
        retry_s: float = RETRY_S,
    ) -> None:
        """Prepares the client. It sends no request yet.

        Args:
            url: the URL of the service, by default GRADEBOX_URL or http://127.0.0.1:8000.
            api_key: the API key, by default GRADEBOX_API_KEY or the key that a service on this machine has stored.
            project: the key of the project.
            timeout: how many seconds an answer may take, or each 64 KiB of a long one. Requests that run graders may
                take longer.
            retry_s: for how many seconds of an outage a request is tried again, while a service that has answered
                before is away or busy. A request has at most three outages.
        """
        self._transport = AsyncTransport(Rules(url, api_key, timeout, retry_s))
        self.project = project
        self.url = self._transport.rules.url
        self.graders = AsyncGraders(self._transport, project)
        self.batches = AsyncBatches(self._transport, project)
        self.environments = AsyncEnvironments(self._transport, project)
        self.models = AsyncModels(self._transport, project)
        self.endpoints = AsyncEndpoints(self._transport, project)
        self.budget = AsyncBudget(self._transport, project)
        self.keys = AsyncKeys(self._transport)
        self.projects = AsyncProjects(self._transport)

    async def score(
        self, key: OneGrader, threads: Iterable[Thread], version: int | None = None, *, columns: Columns | None = None
    ) -> Outcomes:
        """Scores threads while the caller waits, and returns an outcome for each, in order.

        The client sends one request after the other, each of up to 1,000 threads. A batch scores many threads faster.

        Args:
            key: the grader, such as `exact` or `exact@3`, or a handle.
            threads: the threads.
            version: the version of the grader, if `key` names none; by default the newest.
            columns: for rows of a dataset, as in `batches.create`.
        """
        return await self.graders.score(key, threads, version, columns)

    async def reward(self, graders: GraderChoice, name: str = "reward") -> AsyncReward:
        """Combines several graders into one reward for trainers: the weighted sum of their scores.

        If a grader gives a thread no score, the reward has none.

        Args:
            graders: as in `batches.create`. The reward keeps the versions that are named, or the newest now.
            name: the name under which trainers log the reward.

        Raises:
            ValueError: no grader is named, or one twice; a weight is not finite; or a grader takes groups.
        """
        parts = []
        for grader, weight in weights_of_reward(graders).items():
            key, version = grader_names.split_version(grader)
            parts.append(part_of(await self.graders.get(key), version, weight))
        return AsyncReward(parts, name, self.graders)

    async def me(self) -> ApiKey:
        """The client's API key with its projects and role, without its secret."""
        return await self._transport.send(access_calls.me())

    async def sign_in_link(self) -> str:
        """A URL that signs a browser in to the service's pages with the client's API key: once, within a day."""
        return self.url + (await self._transport.send(access_calls.sign_in())).path

    async def compare(
        self,
        a: str | AsyncBatchHandle,
        b: str | AsyncBatchHandle,
        grader: str | None = None,
        grader_b: str | None = None,
        *,
        threshold: float = 1.0,
        limit: int = 100,
    ) -> Comparison:
        """Compares the scores of the same rows in two batches that are over.

        The result has the mean difference, b minus a, with its confidence interval, the rows that flipped between pass
        and fail, and the number of rows that only one batch has. Rows are paired by id, or by position if a batch has
        no ids.

        Args:
            a: a batch or its id.
            b: the batch that is compared with it, or its id.
            grader: the grader, such as `exact` or `exact@3`, needed if a batch has several.
            grader_b: the grader of b, if it is another one.
            threshold: scores from this one on pass.
            limit: how many flipped rows are listed, at most 1,000.

        If no pair has two scores, rows are not paired because their ids differ in type, or batches of different sizes
        are paired by position, a GraderWarning says so, as does `note`.
        """
        call = batch_calls.compare(self.project, _id(a), _id(b), grader, grader_b, threshold, limit)
        return await self._transport.send(call)

    async def agreement(
        self, batch: str | AsyncBatchHandle, grader: str, label: str, *, threshold: float | None = None
    ) -> Agreement:
        """Measures how far a grader agrees with labels, and how its scores correlate with the length of completions.

        Args:
            batch: a batch that is over, or its id.
            grader: a grader of the batch.
            label: another grader of the batch, or a field of the threads, such as `metadata.label`.
            threshold: scores and labels from this one on count as 1, and others as 0.

        If no row has a score and a label, a GraderWarning says why, as does `note`.
        """
        return await self._transport.send(batch_calls.agreement(self.project, _id(batch), grader, label, threshold))

    async def audit(self, limit: int = 100, before: str | None = None, service: bool = False) -> list[AuditLine]:
        """The newest changes in the project. Needs an API key that manages it.

        Args:
            limit: how many changes, at most 1,000.
            before: the id of a change: only older ones.
            service: the changes of API keys and projects instead. Needs a key that manages every project.
        """
        return await self._transport.send(access_calls.list_audit(None if service else self.project, limit, before))

    async def spending(self, period: str = "") -> ProjectSpending:
        """The spending of the project's asks: in total, and for each model, endpoint and grader.

        Args:
            period: a day (`2026-11-23`) or a month (`2026-11`) in UTC; by default all time. For a day or month only
                the total is available. The service keeps days for 40 days and months for 400 days.
        """
        return await self._transport.send(server_calls.get_spending(self.project, period))

    async def close(self) -> None:
        """Closes the connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()
