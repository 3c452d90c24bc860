"""Large answers. Tenants share how many are made at once, and how many of their bytes wait for slow clients."""

from asyncio import sleep
from collections.abc import AsyncIterator, Callable, Iterator
from time import monotonic
from typing import TypeVar, TypeVarTuple

from fastapi import Request

from api.access.callers import WaitingClient, gone, watched
from api.access.shared_threads import SharedThreads
from api.access.tenants import shown, tenant_of
from api.http.problems import RETRY, ProblemError
from api.http.slow_readers import READ_S
from api.http.tenant_memory import TenantMemory
from sandbox.errors import Busy
from sandbox.pool.fair_shares import Shares

AT_ONCE = 4  # each holds the interpreter for some milliseconds at a time, and others wait meanwhile
_WAIT_S = 0.5
_LOOK_S = 0.05
_UNKNOWN_BYTES = 1024 * 1024  # of an answer that is not made yet
_SMALL_BYTES = 64 * 1024  # an answer of fewer bytes is in the buffers of the connection

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")


class LargeAnswers:
    """Makes answers of up to some megabytes in a separate set of threads. Tenants take turns; a tenant alone may have
    two at once.

    Attributes:
        unread: bytes written to connections and not read yet, by tenant. A tenant alone may have half of them.
    """

    def __init__(self, most_unread: int) -> None:
        self.unread = TenantMemory(most_unread)
        self._threads = SharedThreads(_Turns(AT_ONCE, "large answers"))

    async def make(self, request: Request, work: Callable[[*_Args], _T], *args: *_Args) -> _T:
        """Returns the result of `work`, for a request whose body has been read.

        Raises:
            ProblemError: the tenant does not read its answers, no turn came in time, or the client disconnected; also
                what `work` raises.
        """
        tenant = tenant_of(request.scope)
        async with watched(request) as client, client.place(self._threads.shares, tenant):
            if not self.unread.fits(0, tenant):
                raise self._unread(tenant)
            return await self._threads.run_placed(work, *args)

    async def room(self, client: WaitingClient, tenant: str, size: int = _UNKNOWN_BYTES) -> None:
        """Waits until the tenant has read enough of its answers for one more of `size` bytes. A tenant that has read
        all may get any.

        Raises ProblemError if that takes too long, or the client disconnects.
        """
        ends = monotonic() + READ_S
        while size > _SMALL_BYTES and self.unread.of(tenant) and not self.unread.fits(2 * size, tenant):
            if client.is_gone():
                raise gone()
            if monotonic() > ends:
                raise self._unread(tenant)
            await sleep(_LOOK_S)

    def _unread(self, tenant: str) -> ProblemError:
        if self.unread.is_full and self.unread.of(tenant) <= self.unread.held // 2:
            detail = "answers to others that are not read take all the memory for answers: try again in a moment"
            return ProblemError(503, "unavailable", detail, RETRY)
        held = f"{self.unread.of(tenant) >> 20} MiB of answers to {shown(tenant)} were sent but are not read"
        return ProblemError(429, "too-many-requests", f"{held}: read those first", RETRY)

    async def stream(self, request: Request, blocks: Iterator[bytes], first: bytes = b"") -> AsyncIterator[bytes]:
        """Yields the blocks of a long answer, including empty ones. Each takes a turn, after the previous one was
        consumed. While the tenant does not read its answers, the blocks are empty.

        `first` is a block that `make` returned. It is sent at once: nothing counts it until it is written.
        """
        client, tenant = WaitingClient(), tenant_of(request.scope)
        if first:
            yield first
            first = b""  # frees it
        while True:
            async with client.place(self._threads.shares, tenant):
                is_read = self.unread.fits(0, tenant)
                block = await self._threads.run_placed(next, blocks, None) if is_read else b""
            if block is None:
                return
            yield block
            if not is_read:
                await sleep(_WAIT_S)


class _Turns(Shares):
    def busy(self, project: str, waited_s: float, places: int = 1) -> Busy:
        """`project` is a tenant here."""
        detail = (
            f"others for {shown(project)} or of the service were in progress for {waited_s:g} s: ask for fewer at once"
        )
        return Busy(f"the large answer could not be started: {detail}", is_own=True)
