"""Threads that projects share."""

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Request

from api.access.callers import WaitingClient
from sandbox.pool.fair_shares import Shares

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")


class SharedThreads:
    """As many threads as there are places in `shares`. No project has all of them, and waiting projects take turns."""

    def __init__(self, shares: Shares) -> None:
        self.shares = shares
        self._threads = CapacityLimiter(shares.most)

    async def run(self, client: WaitingClient, project: str, work: Callable[[*_Args], _T], *args: *_Args) -> _T:
        """Returns the result of `work`, which keeps its place until it ends.

        Raises ProblemError if no thread was free in time, or the client disconnected before; also what `work` raises.
        """
        async with client.place(self.shares, project):
            return await self.run_placed(work, *args)

    async def run_placed(self, work: Callable[[*_Args], _T], *args: *_Args) -> _T:
        """As `run`, for a caller that holds a place of `shares`."""
        return await run_sync(work, *args, limiter=self._threads)

    async def run_for(self, request: Request, project: str, work: Callable[[*_Args], _T], *args: *_Args) -> _T:
        """As `run`, for a request whose body has been read."""
        async with WaitingClient().place(self.shares, project, request):
            return await self.run_placed(work, *args)
