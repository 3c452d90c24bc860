"""Graders, as a user handles them."""

from collections.abc import Callable, Sequence

from gradebox.client import calls
from gradebox.client.call import Call
from gradebox.client.threads import Thread
from gradebox.client.transport import AsyncTransport, Transport
from gradebox.schemas import Grader, Isolation, Report, Version

Function = Callable[..., object] | str
"""A grader function, which is uploaded with what it uses from its module; or source as a string."""


class Creation:
    """The ways to make a grader: `create.function`."""

    def __init__(self, transport: Transport, project: str) -> None:
        self._transport = transport
        self._project = project

    def function(
        self,
        *,
        key: str,
        fn: Function,
        name: str | None = None,
        description: str | None = None,
        isolation: Isolation | None = None,
        timeout_s: float | None = None,
        memory_mb: int | None = None,
        threads: Sequence[Thread] | None = None,
    ) -> Grader:
        """Proves a function and keeps it as the first version of a new grader.

        `timeout_s` is for one completion, in seconds; `memory_mb` is in MiB. The test run is made on `threads`, where
        the grader needs metadata that the default thread lacks.

        Raises:
            SourceError: the function cannot stand alone; the message says what to change.
            ValidationError: a check failed, and nothing was saved.
            Conflict: the key is taken.
        """
        version = _version(fn, isolation, timeout_s, memory_mb)
        fields = {"key": key, "name": name, "description": description, **version}
        return self._transport.send(calls.create_grader(self._project, fields, threads))


class Graders:
    """The graders of the client's project."""

    def __init__(self, transport: Transport, project: str) -> None:
        self._transport = transport
        self._project = project
        self.create = Creation(transport, project)

    def validate(
        self, fn: Function, threads: Sequence[Thread] | None = None, isolation: Isolation | None = None
    ) -> Report:
        """Asks for the five checks; what is not valid is said in the report, and raises nothing."""
        return self._transport.send(calls.validate(self._project, source_of(fn), threads, isolation))

    def get(self, key: str) -> Grader:
        """One grader. Raises NotFound."""
        return self._transport.send(calls.get_grader(self._project, key))

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
    ) -> Grader:
        """Gives a grader a new version, a name or a description. An unchanged source makes no new version.

        Raises:
            SourceError, ValidationError: as for `create.function`; the grader stays as it was.
            Conflict: the grader is locked.
        """
        version = fn, isolation, timeout_s, memory_mb, threads
        return self._transport.send(_update(self._project, key, name, description, *version))

    def delete(self, key: str) -> None:
        """Deletes a grader. Batches that run keep the version they began with."""
        self._transport.send(calls.delete_grader(self._project, key))

    def lock(self, key: str, locked: bool = True) -> Grader:
        """Keeps a grader from being changed or deleted, until it is unlocked with `locked=False`."""
        return self._transport.send(calls.patch_grader(self._project, key, {"locked": locked}))

    def versions(self, key: str) -> list[Version]:
        """All versions of a grader with their sources."""
        return self._transport.send(calls.list_versions(self._project, key))

    def list(self) -> list[Grader]:
        """All graders of the project."""
        return self._transport.send(calls.list_graders(self._project))


class AsyncCreation:
    """The ways to make a grader: `create.function`."""

    def __init__(self, transport: AsyncTransport, project: str) -> None:
        self._transport = transport
        self._project = project

    async def function(
        self,
        *,
        key: str,
        fn: Function,
        name: str | None = None,
        description: str | None = None,
        isolation: Isolation | None = None,
        timeout_s: float | None = None,
        memory_mb: int | None = None,
        threads: Sequence[Thread] | None = None,
    ) -> Grader:
        """As `Creation.function`."""
        version = _version(fn, isolation, timeout_s, memory_mb)
        fields = {"key": key, "name": name, "description": description, **version}
        return await self._transport.send(calls.create_grader(self._project, fields, threads))


class AsyncGraders:
    """The graders of the client's project, for code that awaits: as `Graders`."""

    def __init__(self, transport: AsyncTransport, project: str) -> None:
        self._transport = transport
        self._project = project
        self.create = AsyncCreation(transport, project)

    async def validate(
        self, fn: Function, threads: Sequence[Thread] | None = None, isolation: Isolation | None = None
    ) -> Report:
        """As `Graders.validate`."""
        return await self._transport.send(calls.validate(self._project, source_of(fn), threads, isolation))

    async def get(self, key: str) -> Grader:
        """As `Graders.get`."""
        return await self._transport.send(calls.get_grader(self._project, key))

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
    ) -> Grader:
        """As `Graders.update`."""
        version = fn, isolation, timeout_s, memory_mb, threads
        return await self._transport.send(_update(self._project, key, name, description, *version))

    async def delete(self, key: str) -> None:
        """As `Graders.delete`."""
        await self._transport.send(calls.delete_grader(self._project, key))

    async def lock(self, key: str, locked: bool = True) -> Grader:
        """As `Graders.lock`."""
        return await self._transport.send(calls.patch_grader(self._project, key, {"locked": locked}))

    async def versions(self, key: str) -> list[Version]:
        """As `Graders.versions`."""
        return await self._transport.send(calls.list_versions(self._project, key))

    async def list(self) -> list[Grader]:
        """As `Graders.list`."""
        return await self._transport.send(calls.list_graders(self._project))


def source_of(fn: Function) -> str:
    """The source to upload. Raises SourceError for a function that cannot stand alone."""
    if isinstance(fn, str):
        return fn
    from gradebox.source import extract  # here, because those who only score need none of it

    return extract(fn)


def _version(
    fn: Function, isolation: Isolation | None, timeout_s: float | None, memory_mb: int | None
) -> dict[str, object]:
    return {"source": source_of(fn), "isolation": isolation, "timeout_s": timeout_s, "memory_mb": memory_mb}


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
        return calls.put_grader(project, key, fields | _version(fn, isolation, timeout_s, memory_mb), threads)
    if any(option is not None for option in (isolation, timeout_s, memory_mb, threads)):
        raise TypeError("isolation, timeout_s, memory_mb and threads belong to a version: give its source too, as fn=")
    return calls.patch_grader(project, key, fields)
