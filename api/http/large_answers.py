"""Large answers. API keys share how many are made at once, and how many of their bytes wait for slow clients."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar, TypeVarTuple

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Request

from api.access.callers import WaitingClient, watched
from api.http.problems import RETRY, ProblemError
from api.intake.body_budget import BodyMemory, key_of
from sandbox.errors import Busy
from sandbox.fair_shares import Shares

AT_ONCE = 4  # each holds the interpreter for some milliseconds at a time, and others wait meanwhile

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")


class LargeAnswers:
    """Makes answers of up to some megabytes in a separate set of threads. API keys take turns; a key alone may have two
    at once.

    Attributes:
        unread: bytes written to connections and not read yet, by API key. One key may have half of them.
    """

    def __init__(self, most_unread: int) -> None:
        self.unread = BodyMemory(most_unread)
        self._turns = _Turns(AT_ONCE, "large answers")
        self._threads = CapacityLimiter(AT_ONCE)

    async def make(self, request: Request, work: Callable[[*_Args], _T], *args: *_Args) -> _T:
        """Returns the result of `work`, for a request whose body has been read.

        Raises:
            ProblemError: the API key does not read its answers, no turn came in time, or the client disconnected; also
                what `work` raises.
        """
        key_id = key_of(request.scope)
        async with watched(request) as client, client.place(self._turns, key_id):
            if not self.unread.fits(0, key_id):
                held = f"{self.unread.held >> 20} MiB of answers were sent but are not read"
                raise ProblemError(429, "too-many-requests", f"{held}: read those of this API key first", RETRY)
            return await run_sync(work, *args, limiter=self._threads)

    async def stream(self, request: Request, blocks: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Yields the blocks of a long answer, including empty ones. Each takes a turn, after the previous one was
        consumed.
        """
        client, key_id = WaitingClient(), key_of(request.scope)
        while True:
            async with client.place(self._turns, key_id):
                block = await run_sync(next, blocks, None, limiter=self._threads)
            if block is None:
                return
            yield block


class _Turns(Shares):
    def busy(self, project: str, waited_s: float, places: int = 1) -> Busy:
        """`project` is the id of an API key here."""
        detail = f"others for this API key or of the service were in progress for {waited_s:g} s: ask for fewer at once"
        return Busy(f"the large answer could not be started: {detail}", is_own=True)
