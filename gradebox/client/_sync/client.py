# Made from gradebox/client/_async by scripts/unasync. Do not edit it: edit what it is made from.
"""The client."""

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from gradebox.agreement import Agreement
from gradebox.client import calls
from gradebox.client._sync.batches import Batches, BatchHandle
from gradebox.client._sync.budget import Budget
from gradebox.client._sync.endpoints import Endpoints
from gradebox.client._sync.environments import Environments
from gradebox.client._sync.graders import Graders
from gradebox.client._sync.keys import Keys, Projects
from gradebox.client._sync.models import Models
from gradebox.client._sync.scoring import Scoring
from gradebox.client._sync.transport import Transport
from gradebox.client.calls import GraderChoice
from gradebox.client.combined import Reward
from gradebox.client.rows import Columns
from gradebox.client.rules import Rules
from gradebox.client.threads import Thread
from gradebox.comparison import Comparison
from gradebox.frame import Outcomes
from gradebox.schemas import ApiKey, AuditLine, BatchGrader, ProjectSpending

TIMEOUT_S = 30.0


def _id(batch: str | BatchHandle) -> str:
    return batch if isinstance(batch, str) else batch.id


class Client:
    """The client of a gradebox service. Close it, or use it as a context manager.

    Threads may share a `Client`, and event loops an `AsyncClient`.

    Attributes:
        url: of the service.
        graders, batches, environments, models, endpoints, budget: of the client's project.
        keys, projects: of the service; for API keys that manage every project.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        project: str = "default",
        timeout: float = TIMEOUT_S,
    ) -> None:
        """Sends nothing yet.

        `url` defaults to GRADEBOX_URL or http://127.0.0.1:8000; `api_key` to GRADEBOX_API_KEY or what a service on
        this machine left. `timeout` is how many seconds an answer may take; what grades gets more.
        """
        self._transport = Transport(Rules(url, api_key, timeout))
        self.project = project
        self.url = self._transport.rules.url
        self._scoring = Scoring(self._transport, project)
        self.graders = Graders(self._transport, project, self._scoring)
        self.batches = Batches(self._transport, project)
        self.environments = Environments(self._transport, project)
        self.models = Models(self._transport, project)
        self.endpoints = Endpoints(self._transport, project)
        self.budget = Budget(self._transport, project)
        self.keys = Keys(self._transport)
        self.projects = Projects(self._transport)

    def score(
        self, key: str, threads: Iterable[Thread], version: int | None = None, *, columns: Columns | None = None
    ) -> Outcomes:
        """Scores threads while the caller waits: an outcome for each, in order.

        Requests hold 1,000 threads each, one after the other: a batch scores many threads faster. `columns` is for
        rows of a dataset, as in `batches.create`.
        """
        return self._scoring.score(key, threads, version, columns)

    def reward(self, graders: GraderChoice, name: str = "reward") -> Reward:
        """One reward of several graders, for trainers: the sum of their scores, each times its weight.

        `graders` as in `batches.create`, with the versions that they have now. Trainers log it as `name`. Where one of
        them gives no score, the reward has none.
        """
        chosen = calls.weights_of(graders)
        if not chosen:
            raise ValueError("name at least one grader")
        parts = []
        for grader, weight in chosen.items():
            key, version = calls.split_version(grader)
            newest = self.graders.get(key)
            if newest.groups:
                raise ValueError(
                    f"grader {key!r} takes groups of completions, and a reward of several scores single threads: give "
                    "the trainer its own reward beside this one"
                )
            parts.append(BatchGrader(key=key, version=version or newest.version, weight=weight))
        return Reward(parts, name, self._scoring)

    def me(self) -> ApiKey:
        """The API key that the client asks with, without its secret: its projects, and its role there."""
        return self._transport.send(calls.me())

    def sign_in_link(self) -> str:
        """A URL that signs a browser in to the service's pages as the API key of the client: once, within a day."""
        return self.url + (self._transport.send(calls.sign_in())).path

    def compare(
        self,
        a: str | BatchHandle,
        b: str | BatchHandle,
        grader: str | None = None,
        grader_b: str | None = None,
        *,
        threshold: float = 1.0,
        limit: int = 100,
    ) -> Comparison:
        """The scores of the same rows in two batches that are over, b beside a: their mean difference with its
        confidence interval, which rows flipped, and how many only one of them has.

        Rows are paired by id, or by position where a batch has no ids. `grader` names one, such as `exact` or
        `exact@3`, where a batch has several; `grader_b` that of b, where it is another. Scores from `threshold` on
        pass. `limit` (1,000) is how many of those that flipped are listed.
        """
        call = calls.compare(self.project, _id(a), _id(b), grader, grader_b, threshold, limit)
        return self._transport.send(call)

    def agreement(
        self, batch: str | BatchHandle, grader: str, label: str, *, threshold: float | None = None
    ) -> Agreement:
        """How far a grader of a batch that is over agrees with labels, and how its scores go with the length of
        completions.

        `label` names another grader of the batch, or a field of the threads, such as `metadata.label`. With
        `threshold`, scores and labels count as 1 from there on, and else as 0.
        """
        return self._transport.send(calls.agreement(self.project, _id(batch), grader, label, threshold))

    def audit(self, limit: int = 100, before: str | None = None, service: bool = False) -> list[AuditLine]:
        """The newest changes of the project, or of API keys and projects for `service`; for keys that manage them.

        At most `limit` (1,000), or those older than the line `before`.
        """
        return self._transport.send(calls.list_audit(None if service else self.project, limit, before))

    def spending(self, period: str = "") -> ProjectSpending:
        """What the asks of the project came to: in all, and of each model, endpoint and grader.

        `period` names a day, `2026-11-23`, or a month, `2026-11`, of UTC; of these there is the total alone. Days are
        kept for 40 days, and months for 400.
        """
        return self._transport.send(calls.get_spending(self.project, period))

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
