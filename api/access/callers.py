"""Who waits while a grader runs: of which project, until when, and whether it is still there."""

import threading
from asyncio import AbstractEventLoop, Future, create_task, get_running_loop
from asyncio import timeout as time_limit
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

from fastapi import Request

from api.http.problems import ProblemError, problem_of
from sandbox.errors import Stopped
from sandbox.fair_shares import Shares

PLACE_S = 60.0  # that a call waits for others of its project to end, or of all

_GONE = "the connection closed before there was an answer"


class WaitingClient:
    """One connection that waits for an answer. `is_gone` may be asked by any thread; the rest is the event loop's."""

    def __init__(self) -> None:
        self._gone = threading.Event()
        self._waits: set[Future[None]] = set()

    def is_gone(self) -> bool:
        """Whether nobody waits any more."""
        return self._gone.is_set()

    def leave(self) -> None:
        """Notes that nobody waits any more, and ends what waits for a place."""
        self._gone.set()
        for wait in self._waits:
            if not wait.done():
                wait.set_exception(gone())

    @asynccontextmanager
    async def place(self, shares: Shares, project: str) -> AsyncIterator[None]:
        """Waits for a place of this project, and holds it.

        Raises ProblemError where there was none in time, or the client has gone.
        """
        granted = get_running_loop().create_future()
        grant = _Grant(granted)
        shares.ask(project, grant)
        self._waits.add(granted)
        try:
            if self.is_gone():
                raise gone()
            async with time_limit(PLACE_S):
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


def gone() -> ProblemError:
    """What a request ends with whose client has left."""
    return problem_of(Stopped(_GONE))


class _Grant:
    """Wakes who waits for a place, from whichever thread."""

    def __init__(self, granted: "Future[None]") -> None:
        self._granted = granted
        self._loop: AbstractEventLoop = granted.get_loop()

    def __call__(self) -> None:
        self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        if not self._granted.done():
            self._granted.set_result(None)


@asynccontextmanager
async def watched(request: Request) -> AsyncIterator[WaitingClient]:
    """The client of a request whose body has been read, which is noticed to leave while the block lasts."""
    client = WaitingClient()

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        client.leave()

    watching = create_task(watch())
    try:
        yield client
    finally:
        watching.cancel()
        client.leave()  # also where the request was cancelled, since the service stops: then its thread is to end


class Caller:
    """Who waits for one call that grades. Its methods may be called by any thread."""

    def __init__(self, client: WaitingClient, project: str, seconds: float) -> None:
        """`seconds` is what the call may take from now on."""
        self.project = project
        self._client = client
        self._seconds = seconds
        self._ends = monotonic() + seconds
        self._advice = "one call takes no longer (GRADEBOX_SCORE_S): send fewer threads, or send them as a batch"

    def of_project(self, project: str) -> "Caller":
        """The same caller, in this project."""
        caller = Caller(self._client, project, self._seconds)
        caller._ends, caller._advice = self._ends, self._advice
        return caller

    def until(self, ends: float) -> "Caller":
        """The same caller, who waits no longer than to this moment of the monotonic clock."""
        if ends > self._ends:
            return self
        caller = Caller(self._client, self.project, max(0.0, ends - monotonic()))
        caller._advice = "the client waits no longer"
        return caller

    def is_gone(self) -> bool:
        """Whether the client has gone."""
        return self._client.is_gone()

    def wants_no_more(self, _: int = 0) -> bool:
        """Whether the client has gone, or the time is over."""
        return self._client.is_gone() or monotonic() > self._ends

    def why(self, done: str) -> Stopped | ProblemError:
        """What to raise where a grader was stopped. `done` says how far it came."""
        if self._client.is_gone():
            return Stopped(_GONE)
        return ProblemError(
            504,
            "timeout",
            f"{done} in {self._seconds:.3g} s, and {self._advice}",
        )
