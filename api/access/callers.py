"""The caller that waits while a grader runs: its project, its deadline, and whether it is still connected."""

import threading
from asyncio import Future, create_task, get_running_loop
from asyncio import timeout as time_limit
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from time import monotonic

from fastapi import Request

from api.http.problems import ProblemError, problem_of
from gradebox.schemas import Limits
from sandbox.errors import Stopped
from sandbox.pool.fair_shares import Shares

PLACE_S = 60.0  # the longest wait for a place, which other calls of the project or of all projects hold

_GONE = "the connection closed before there was an answer"


class WaitingClient:
    """One connection that waits for a response. `is_gone` is thread-safe; the other methods are for the event loop."""

    def __init__(self) -> None:
        self._gone = threading.Event()
        self._waits: set[Future[None]] = set()

    def is_gone(self) -> bool:
        """Whether the client has disconnected, or its request is over."""
        return self._gone.is_set()

    def leave(self) -> None:
        """Marks the client as gone, and cancels its waits for a place."""
        self._gone.set()
        for wait in self._waits:
            if not wait.done():
                wait.set_exception(gone())

    @asynccontextmanager
    async def place(self, shares: Shares, project: str, request: Request | None = None) -> AsyncIterator[None]:
        """Waits for a place of this project, and holds it. If `request` is given, watches for its disconnect only while
        it waits, which costs less if a place is free.

        Raises ProblemError if none came in time, or the client disconnected.
        """
        loop, own = get_running_loop(), threading.get_ident()
        granted = loop.create_future()

        def grant() -> None:  # any thread may grant a place
            if threading.get_ident() == own:
                _wake(granted)
            else:
                loop.call_soon_threadsafe(_wake, granted)

        shares.ask(project, grant)
        self._waits.add(granted)
        try:
            if self.is_gone():
                raise gone()
            if not granted.done():
                async with time_limit(PLACE_S), nullcontext() if request is None else self._watching(request):
                    await granted
        except TimeoutError as error:
            busy = shares.busy(project, PLACE_S)
            shares.give_up(project, grant)
            raise problem_of(busy) from error
        except BaseException:
            shares.give_up(project, grant)
            raise
        finally:
            self._waits.discard(granted)
        try:
            yield
        finally:
            shares.leave(project)

    @asynccontextmanager
    async def _watching(self, request: Request) -> AsyncIterator[None]:
        """Watches for the disconnect of a request whose body has been read."""

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            self.leave()

        watching = create_task(watch())
        try:
            yield
        finally:
            watching.cancel()


def gone() -> ProblemError:
    """The problem that ends a request whose client has disconnected."""
    return problem_of(Stopped(_GONE))


def _wake(granted: Future[None]) -> None:
    if not granted.done():
        granted.set_result(None)


@asynccontextmanager
async def watched(request: Request) -> AsyncIterator[WaitingClient]:
    """Yields the client of a request whose body has been read, and watches for its disconnect inside the block."""
    client = WaitingClient()
    try:
        async with client._watching(request):
            yield client
    finally:
        client.leave()  # also if the request was cancelled because the service stops: its thread has to end


class Caller:
    """The caller of one grading call. Its methods are thread-safe."""

    def __init__(self, client: WaitingClient, project: str, limits: Limits, seconds: float) -> None:
        """`limits` are those of the project; `seconds`: the time that the call may take from now on."""
        self.project = project
        self.limits = limits
        self._client = client
        self._seconds = seconds
        self._ends = monotonic() + seconds
        self._advice = "one call takes no longer (GRADEBOX_SCORE_S): send fewer threads, or send them as a batch"

    def of_project(self, project: str, limits: Limits) -> "Caller":
        """The same caller, in this project, which has these limits."""
        caller = Caller(self._client, project, limits, self._seconds)
        caller._ends, caller._advice = self._ends, self._advice
        return caller

    def until(self, ends: float) -> "Caller":
        """The same caller, with an earlier deadline: this moment of the monotonic clock."""
        if ends > self._ends:
            return self
        caller = Caller(self._client, self.project, self.limits, max(0.0, ends - monotonic()))
        caller._advice = "the client waits no longer"
        return caller

    def is_gone(self) -> bool:
        """Whether the client has disconnected."""
        return self._client.is_gone()

    def should_stop(self, _: int = 0) -> bool:
        """Whether the client has disconnected, or the deadline has passed."""
        return self._client.is_gone() or monotonic() > self._ends

    def why(self, done: str) -> Stopped | ProblemError:
        """Returns the exception to raise when a grader was stopped. `done`: the progress it made."""
        if self._client.is_gone():
            return Stopped(_GONE)
        return ProblemError(
            504,
            "timeout",
            f"{done} in {self._seconds:.3g} s, and {self._advice}",
        )
