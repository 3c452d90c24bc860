"""Graders, as a user handles them."""

from collections.abc import Sequence

from gradebox.client import calls
from gradebox.client.call import Call
from gradebox.client.creation import AsyncCreation, Creation, Function, source_of, version_of
from gradebox.client.handles import AsyncGraderHandle, GraderHandle
from gradebox.client.scoring import AsyncScoring, Scoring
from gradebox.client.threads import Thread
from gradebox.client.transport import AsyncTransport, Transport
from gradebox.schemas import Grader, Isolation, Report, Version


class Graders:
    """The graders of the client's project."""

    def __init__(self, transport: Transport, project: str, scoring: Scoring) -> None:
        self._transport = transport
        self._project = project
        self._scoring = scoring
        self.create = Creation(transport, project, scoring)

    def validate(
        self, fn: Function, threads: Sequence[Thread] | None = None, isolation: Isolation | None = None
    ) -> Report:
        """Asks for the five checks; what is not valid is said in the report, and raises nothing."""
        return self._transport.send(calls.validate(self._project, source_of(fn), threads, isolation))

    def get(self, key: str) -> GraderHandle:
        """One grader. Raises NotFound."""
        return self._held(self._transport.send(calls.get_grader(self._project, key)))

    def update(
        self,
        key: str,
        *,
        fn: Function | None = None,
        name: str | None = None,
        description: str | None = None,
        isolation: Isolation | None = None,
        timeout_s: float | None = None,
        memory_mb: int | None = None,
        threads: Sequence[Thread] | None = None,
    ) -> GraderHandle:
        """Gives a grader a new version, a name or a description. An unchanged source makes no new version.

        Raises:
            SourceError, ValidationError: as for `create.function`; the grader stays as it was.
            Conflict: the grader is locked.
        """
        version = fn, isolation, timeout_s, memory_mb, threads
        return self._held(self._transport.send(_update(self._project, key, name, description, *version)))

    def delete(self, key: str) -> None:
        """Deletes a grader. Batches that run keep the version they began with."""
        self._transport.send(calls.delete_grader(self._project, key))

    def lock(self, key: str, locked: bool = True) -> GraderHandle:
        """Keeps a grader from being changed or deleted, until it is unlocked with `locked=False`."""
        return self._held(self._transport.send(calls.patch_grader(self._project, key, {"locked": locked})))

    def versions(self, key: str) -> list[Version]:
        """All versions of a grader with their sources."""
        found: list[Version] = []
        while _last(more := self._transport.send(calls.list_versions(self._project, key, _last(found)))) > _last(found):
            found += more
        return found

    def _held(self, grader: Grader) -> GraderHandle:
        return GraderHandle.of(grader, self._scoring)

    def list(self) -> list[GraderHandle]:
        """All graders of the project."""
        found, after = list[Grader](), ""
        while (more := self._transport.send(calls.list_graders(self._project, after))) and more[-1].key > after:
            found, after = found + more, more[-1].key
        return [self._held(grader) for grader in found]


class AsyncGraders:
    """The graders of the client's project, for code that awaits: as `Graders`."""

    def __init__(self, transport: AsyncTransport, project: str, scoring: AsyncScoring) -> None:
        self._transport = transport
        self._project = project
        self._scoring = scoring
        self.create = AsyncCreation(transport, project, scoring)

    async def validate(
        self, fn: Function, threads: Sequence[Thread] | None = None, isolation: Isolation | None = None
    ) -> Report:
        """As `Graders.validate`."""
        return await self._transport.send(calls.validate(self._project, source_of(fn), threads, isolation))

    async def get(self, key: str) -> AsyncGraderHandle:
        """As `Graders.get`."""
        return self._held(await self._transport.send(calls.get_grader(self._project, key)))

    async def update(
        self,
        key: str,
        *,
        fn: Function | None = None,
        name: str | None = None,
        description: str | None = None,
        isolation: Isolation | None = None,
        timeout_s: float | None = None,
        memory_mb: int | None = None,
        threads: Sequence[Thread] | None = None,
    ) -> AsyncGraderHandle:
        """As `Graders.update`."""
        version = fn, isolation, timeout_s, memory_mb, threads
        return self._held(await self._transport.send(_update(self._project, key, name, description, *version)))

    async def delete(self, key: str) -> None:
        """As `Graders.delete`."""
        await self._transport.send(calls.delete_grader(self._project, key))

    async def lock(self, key: str, locked: bool = True) -> AsyncGraderHandle:
        """As `Graders.lock`."""
        return self._held(await self._transport.send(calls.patch_grader(self._project, key, {"locked": locked})))

    async def versions(self, key: str) -> list[Version]:
        """As `Graders.versions`."""
        found: list[Version] = []
        while _last(more := await self._transport.send(calls.list_versions(self._project, key, _last(found)))) > _last(
            found
        ):
            found += more
        return found

    def _held(self, grader: Grader) -> AsyncGraderHandle:
        return AsyncGraderHandle.of(grader, self._scoring)

    async def list(self) -> list[AsyncGraderHandle]:
        """As `Graders.list`."""
        found, after = list[Grader](), ""
        while (more := await self._transport.send(calls.list_graders(self._project, after))) and more[-1].key > after:
            found, after = found + more, more[-1].key
        return [self._held(grader) for grader in found]


def _update(
    project: str,
    key: str,
    name: str | None,
    description: str | None,
    fn: Function | None,
    isolation: Isolation | None,
    timeout_s: float | None,
    memory_mb: int | None,
    threads: Sequence[Thread] | None,
) -> Call[Grader]:
    fields = {"name": name, "description": description}
    if fn is not None:
        return calls.put_grader(project, key, fields | version_of(fn, isolation, timeout_s, memory_mb), threads)
    if any(option is not None for option in (isolation, timeout_s, memory_mb, threads)):
        raise TypeError("isolation, timeout_s, memory_mb and threads belong to a version: give its source too, as fn=")
    return calls.patch_grader(project, key, fields)


def _last(versions: Sequence[Version]) -> int:
    """The number to go on after."""
    return versions[-1].number if versions else 0
