"""What the handlers of requests work with."""

from collections.abc import Callable
from typing import Annotated, TypeVar, TypeVarTuple

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Depends, Request

from api.failed_keys import FailedKeys
from api.settings import ApiSettings
from sandbox.pool import Pool
from storage.store import Store
from worker.dispatch import Dispatch

GRADING_AT_ONCE = 32

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")


class Services:
    """One API process."""

    def __init__(self, store: Store, pool: Pool, settings: ApiSettings | None = None) -> None:
        self.settings = settings or ApiSettings()
        self.store = store
        self.pool = pool
        self.dispatch = Dispatch(store)
        self.failed_keys = FailedKeys(self.settings.failed_keys)
        self._grading = CapacityLimiter(GRADING_AT_ONCE)

    async def grade(self, work: Callable[[*_Args], _T], *args: *_Args) -> _T:
        """Runs in a thread what waits for a sandbox. Such threads are counted apart, so that requests which only
        read never wait for graders that are slow.
        """
        return await run_sync(work, *args, limiter=self._grading)


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


Served = Annotated[Services, Depends(_services)]
