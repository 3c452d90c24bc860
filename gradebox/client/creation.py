"""The ways to make a grader."""

from collections.abc import Callable, Sequence
from typing import TypedDict, Unpack

from gradebox._openai import openai_grader
from gradebox.client import calls
from gradebox.client.handles import AsyncGraderHandle, GraderHandle
from gradebox.client.scoring import AsyncScoring, Scoring
from gradebox.client.threads import Thread
from gradebox.client.transport import AsyncTransport, Transport
from gradebox.schemas import Isolation

Function = Callable[..., object] | str
"""A grader function, which is uploaded with what it uses from its module; or source as a string."""


class Options(TypedDict, total=False):
    """What `create.function` takes besides a key and a function."""

    name: str | None
    description: str | None
    isolation: Isolation | None
    timeout_s: float | None
    memory_mb: int | None
    threads: Sequence[Thread] | None


class Creation:
    """The ways to make a grader: `create.function`, `create.python`."""

    def __init__(self, transport: Transport, project: str, scoring: Scoring) -> None:
        self._transport = transport
        self._project = project
        self._scoring = scoring

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
    ) -> GraderHandle:
        """Proves a function and keeps it as the first version of a new grader.

        `timeout_s` is for one completion, in seconds; `memory_mb` is in MiB. The test run is made on `threads`, where
        the grader needs metadata that the default thread lacks.

        Raises:
            SourceError: the function cannot stand alone; the message says what to change.
            ValidationError: a check failed, and nothing was saved.
            Conflict: the key is taken.
        """
        version = version_of(fn, isolation, timeout_s, memory_mb)
        fields = {"key": key, "name": name, "description": description, **version}
        grader = self._transport.send(calls.create_grader(self._project, fields, threads))
        return GraderHandle.of(grader, self._scoring)

    def python(
        self,
        *,
        key: str,
        fn: Callable[..., object] | None = None,
        source: str | None = None,
        **options: Unpack[Options],
    ) -> GraderHandle:
        """As `function`, for a grader that was written for OpenAI: `grade(sample, item)`, sync or async.

        It is given as a function or as its source. `sample` holds the completion, `item` is the thread's metadata.
        """
        return self.function(key=key, fn=openai_grader(_one(fn, source)), **options)


class AsyncCreation:
    """The ways to make a grader: `create.function`, `create.python`."""

    def __init__(self, transport: AsyncTransport, project: str, scoring: AsyncScoring) -> None:
        self._transport = transport
        self._project = project
        self._scoring = scoring

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
    ) -> AsyncGraderHandle:
        """As `Creation.function`."""
        version = version_of(fn, isolation, timeout_s, memory_mb)
        fields = {"key": key, "name": name, "description": description, **version}
        grader = await self._transport.send(calls.create_grader(self._project, fields, threads))
        return AsyncGraderHandle.of(grader, self._scoring)

    async def python(
        self,
        *,
        key: str,
        fn: Callable[..., object] | None = None,
        source: str | None = None,
        **options: Unpack[Options],
    ) -> AsyncGraderHandle:
        """As `Creation.python`."""
        return await self.function(key=key, fn=openai_grader(_one(fn, source)), **options)


def source_of(fn: Function) -> str:
    """The source to upload. Raises SourceError for a function that cannot stand alone."""
    if isinstance(fn, str):
        return fn
    from gradebox.source import extract  # here, because those who only score need none of it

    return extract(fn)


def version_of(
    fn: Function, isolation: Isolation | None, timeout_s: float | None, memory_mb: int | None
) -> dict[str, object]:
    """What a version is made of, as the service takes it. Raises SourceError as `source_of` does."""
    return {"source": source_of(fn), "isolation": isolation, "timeout_s": timeout_s, "memory_mb": memory_mb}


def _one(fn: Callable[..., object] | None, source: str | None) -> Function:
    if fn is not None and source is None:
        return fn
    if source is not None and fn is None:
        return source
    raise TypeError("give the grader as a function, fn=, or as its source, source=")
