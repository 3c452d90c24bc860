"""Synchronous scoring: threads cut into requests, one after the other."""

from collections.abc import Iterable

from msgspec.structs import replace

from gradebox.client import calls
from gradebox.client.threads import Thread, pieces
from gradebox.client.transport import AsyncTransport, Transport
from gradebox.outcome import Outcome


class Scoring:
    """Of the client's project."""

    def __init__(self, transport: Transport, project: str) -> None:
        self._transport = transport
        self._project = project

    def score(self, key: str, threads: Iterable[Thread], version: int | None = None) -> list[Outcome]:
        """An outcome for each thread, in order."""
        key, named = calls.split_version(key)
        outcomes = list[Outcome]()
        for first, lines in pieces(threads):
            outcomes += _moved(self._transport.send(calls.score(self._project, key, version or named, lines)), first)
        return outcomes


class AsyncScoring:
    """As `Scoring`, for code that awaits."""

    def __init__(self, transport: AsyncTransport, project: str) -> None:
        self._transport = transport
        self._project = project

    async def score(self, key: str, threads: Iterable[Thread], version: int | None = None) -> list[Outcome]:
        """As `Scoring.score`."""
        key, named = calls.split_version(key)
        outcomes = list[Outcome]()
        for first, lines in pieces(threads):
            call = calls.score(self._project, key, version or named, lines)
            outcomes += _moved(await self._transport.send(call), first)
        return outcomes


def _moved(outcomes: list[Outcome], first: int) -> list[Outcome]:
    """The outcomes of a later request, with the positions that their threads have among all."""
    return [replace(outcome, index=first + outcome.index) for outcome in outcomes] if first else outcomes
