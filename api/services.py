"""What the handlers of requests work with."""

from asyncio import get_running_loop
from collections.abc import Callable
from functools import partial
from typing import Annotated, Concatenate, Literal, ParamSpec, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Depends, Request
from fastapi.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from api.access.callers import Caller, WaitingClient, watched
from api.access.failed_keys import FailedKeys
from api.access.strangers import Strangers
from api.http.connections import Connections
from api.http.large_answers import LargeAnswers
from api.http.problems import problem_of
from api.intake.body_budget import BodyMemory
from api.missing_workers import MissingWorkers
from api.numbers.process import IsGone
from api.progress import Watching
from api.readiness import Readiness
from api.settings import ApiSettings
from api.telemetry.collector import Stored
from api.telemetry.exposition import Exposition
from api.telemetry.requests import Requests
from models.answering import ProjectAnswering, asker_of
from models.settings import ModelSettings
from runtime.metrics import Metrics
from runtime.metrics_files import MergedMetrics
from sandbox.errors import Busy, Stopped
from sandbox.fair_shares import Shares
from sandbox.pool import Pool
from storage.processes import Presence
from storage.store import Store
from worker.dispatch import Dispatch
from worker.environments.settings import EnvironmentSettings

GRADING_AT_ONCE = 32
COMPUTING_AT_ONCE = 2
TRIALS_AT_ONCE = 16

_T = TypeVar("_T")
_Args = ParamSpec("_Args")


class Services:
    """One API process."""

    def __init__(self, store: Store, pool: Pool, settings: ApiSettings | None = None) -> None:
        self.settings = settings or ApiSettings()
        self.environments = EnvironmentSettings()
        self.models = ModelSettings()
        self.store = store
        self.pool = pool
        pool.environments.fetch_from(store.spool.open_archive)
        self.asker = asker_of(store, self.models, pool)
        self.dispatch = Dispatch(store)
        self.failed_keys = FailedKeys(self.settings.failed_keys)
        self.strangers = Strangers(self.settings.strangers)
        self.missing_workers = MissingWorkers(store)
        self.presence = Presence(store.processes, "api", self._trouble)
        self.watching = Watching(store)
        self.readiness = Readiness(store, pool)
        self.metrics = Metrics("api")
        registry = self.metrics.registry
        registry.register(pool.counts.registry)
        registry.register(self.asker.counts.registry)
        registry.register(Stored(store))
        self.requests = Requests(registry)
        folder = self.settings.metrics_dir
        self.exposition = Exposition(registry if folder is None else MergedMetrics(registry, folder))
        self.memory = BodyMemory(self.settings.body_memory_mb * 1024 * 1024)
        self.connections = Connections(self.settings.connections)
        self.large_answers = LargeAnswers(self.settings.answer_memory_mb * 1024 * 1024)
        self.reading_data = CapacityLimiter(1)  # zip files, each of which may take 70 MB
        self._grading = Shares(GRADING_AT_ONCE, "calls that grade")
        self.trials = Shares(TRIALS_AT_ONCE, "tests of models")
        self._threads = CapacityLimiter(GRADING_AT_ONCE)
        self._computing = Shares(COMPUTING_AT_ONCE, "computations of statistics")
        self._computing_threads = CapacityLimiter(COMPUTING_AT_ONCE)

    def _trouble(self) -> str | None:
        """What the process tells of itself every few seconds. Workers are looked for as often: it is logged that none
        lives, though nobody asks whether the service is ready.
        """
        self.missing_workers.look()
        return self.pool.trouble()

    @property
    def line_bytes(self) -> int:
        """How long a thread may be."""
        return self.pool.line_bytes

    def answering(self, project: str, ask: Literal["stand-in"] | None = None) -> ProjectAnswering:
        """Answers what a grader of this project asks while it is proved."""
        return ProjectAnswering(self.store, self.asker, project, stand_in=ask == "stand-in")

    async def grade(
        self,
        request: Request,
        project: str,
        work: Callable[Concatenate[Caller, _Args], _T],
        *args: _Args.args,
        **more: _Args.kwargs,
    ) -> _T:
        """Does what waits for a sandbox, for a request whose body has been read, until its client goes."""
        async with watched(request) as client:
            return await self.grade_for(client, project, work, *args, **more)

    async def grade_for(
        self,
        client: WaitingClient,
        project: str,
        work: Callable[Concatenate[Caller, _Args], _T],
        *args: _Args.args,
        **more: _Args.kwargs,
    ) -> _T:
        """Runs in a thread what waits for a sandbox. Such threads are counted apart, so that requests which only read
        never wait for graders that are slow; and projects share them.

        Raises:
            ProblemError: there was no thread or no sandbox in time, or the client has gone; and what `work` raises.
        """
        caller = Caller(client, project, self.settings.score_s)
        try:
            async with client.place(self._grading, project):
                return await run_sync(partial(work, caller, *args, **more), limiter=self._threads)
        except (Busy, Stopped) as error:
            raise problem_of(error) from error
        finally:
            # In the next turn of the loop, which has sent the answer by then: it takes the processor for a while.
            get_running_loop().call_soon(self.pool.reset)

    async def compute(
        self,
        request: Request,
        project: str,
        work: Callable[Concatenate[IsGone, _Args], _T],
        *args: _Args.args,
        **more: _Args.kwargs,
    ) -> _T:
        """Does what runs the program for statistics, for a request whose body has been read, until its client goes.
        Projects share the places.

        Raises:
            ProblemError: there was no place in time, or the client has gone; and what `work` raises.
        """
        try:
            async with watched(request) as client, client.place(self._computing, project):
                computed = partial(work, client.is_gone, *args, **more)
                return await run_sync(computed, limiter=self._computing_threads)
        except Stopped as error:
            raise problem_of(error) from error


class Release:
    """Lets go of what requests held when they are answered: of memory, and of connections of their API keys."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request, or one websocket."""
        try:
            await self._app(scope, receive, send)
        finally:
            self._services.memory.release(scope)
            self._services.connections.release(scope)


async def _services(connection: HTTPConnection) -> Services:
    services: Services = connection.app.state.services
    return services


Served = Annotated[Services, Depends(_services)]
