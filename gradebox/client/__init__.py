"""The client: `Client` for code that blocks, `AsyncClient` for code that awaits."""

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from gradebox.client import calls
from gradebox.client.batches import AsyncBatches, AsyncBatchHandle, Batches, BatchHandle
from gradebox.client.graders import AsyncGraders, Graders
from gradebox.client.handles import AsyncGraderHandle, GraderHandle
from gradebox.client.keys import AsyncKeys, AsyncProjects, Keys, Projects
from gradebox.client.scoring import AsyncScoring, Scoring
from gradebox.client.threads import Thread
from gradebox.client.transport import AsyncTransport, Rules, Transport
from gradebox.outcome import Outcome
from gradebox.schemas import AuditLine

__all__ = ["AsyncBatchHandle", "AsyncClient", "AsyncGraderHandle", "BatchHandle", "Client", "GraderHandle"]

TIMEOUT_S = 30.0


class Client:
    """Speaks to a gradebox service. Close it, or use it with `with`; threads may share it.

    Attributes:
        graders, batches: of the client's project.
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
        self._scoring = Scoring(self._transport, project)
        self.graders = Graders(self._transport, project, self._scoring)
        self.batches = Batches(self._transport, project)
        self.keys = Keys(self._transport)
        self.projects = Projects(self._transport)

    def score(self, key: str, threads: Iterable[Thread], version: int | None = None) -> list[Outcome]:
        """Scores threads while the caller waits: an outcome for each, in order.

        Requests hold 1,000 threads each, one after the other: a batch scores many threads faster.
        """
        return self._scoring.score(key, threads, version)

    def audit(self, limit: int = 100, before: str | None = None, service: bool = False) -> list[AuditLine]:
        """The newest changes of the project, or of API keys and projects for `service`; for keys that manage them.

        At most `limit` (1,000), or those older than the line `before`.
        """
        return self._transport.send(calls.list_audit(None if service else self.project, limit, before))

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class AsyncClient:
    """`Client`, for code that awaits. Close it, or use it with `async with`."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        project: str = "default",
        timeout: float = TIMEOUT_S,
    ) -> None:
        """As `Client`."""
        self._transport = AsyncTransport(Rules(url, api_key, timeout))
        self.project = project
        self._scoring = AsyncScoring(self._transport, project)
        self.graders = AsyncGraders(self._transport, project, self._scoring)
        self.batches = AsyncBatches(self._transport, project)
        self.keys = AsyncKeys(self._transport)
        self.projects = AsyncProjects(self._transport)

    async def score(self, key: str, threads: Iterable[Thread], version: int | None = None) -> list[Outcome]:
        """As `Client.score`."""
        return await self._scoring.score(key, threads, version)

    async def audit(self, limit: int = 100, before: str | None = None, service: bool = False) -> list[AuditLine]:
        """As `Client.audit`."""
        return await self._transport.send(calls.list_audit(None if service else self.project, limit, before))

    async def close(self) -> None:
        """Closes the connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()
