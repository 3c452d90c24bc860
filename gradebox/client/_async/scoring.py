"""Synchronous scoring: threads are split into requests, which are sent one after the other."""

from collections.abc import Iterable

from gradebox.client import calls
from gradebox.client._async.transport import AsyncTransport
from gradebox.client.calls import OneGrader
from gradebox.client.outcomes import moved
from gradebox.client.rows import Columns, with_columns
from gradebox.client.threads import Thread, pieces
from gradebox.frame import Outcomes


class AsyncScoring:
    """Scores threads with the graders of one project."""

    def __init__(self, transport: AsyncTransport, project: str) -> None:
        self.transport = transport
        self._project = project

    async def score(
        self, key: OneGrader, threads: Iterable[Thread], version: int | None = None, columns: Columns | None = None
    ) -> Outcomes:
        """An outcome for each thread, in order."""
        name, number = calls.version_of(key, version)
        outcomes = Outcomes()
        for first, lines in pieces(with_columns(threads, columns)):
            call = calls.score(self._project, name, number, lines)
            outcomes += moved(await self.transport.send(call), first)
        return outcomes
