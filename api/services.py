"""The objects and limits shared by the request handlers of one API process."""

from collections.abc import Callable
from typing import Annotated, Literal, TypeVar, TypeVarTuple

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Depends, Request
from fastapi.requests import HTTPConnection
from prometheus_client import Gauge
from starlette.types import ASGIApp, Receive, Scope, Send

from api.access.callers import Caller, WaitingClient, watched
from api.access.failed_keys import FailedKeys
from api.access.shared_threads import SharedThreads
from api.access.strangers import Strangers
from api.access.tenants import tenant_of
from api.http.connections import Connections
from api.http.large_answers import LargeAnswers
from api.http.problems import problem_of
from api.http.tenant_memory import TenantMemory
from api.numbers.run_job import IsGone
from api.progress_events import Watching
from api.readiness import Readiness
from api.settings import ApiSettings
from api.shortages import Shortages
from api.telemetry.collector import Stored
from api.telemetry.exposition import Exposition
from api.telemetry.requests import Requests
from gradebox.schemas import Limits
from models.scoring.validation_asks import ProjectAnswering, asker_of
from models.settings import ModelSettings
from runtime.metrics import Metrics
from runtime.metrics_files import MergedMetrics
from sandbox.errors import Busy, Stopped
from sandbox.limits import MAX_MEMORY_MB, MAX_TIMEOUT_S
from sandbox.pool.fair_shares import Shares
from sandbox.pool.pool import Pool
from storage.access.own_limits import OwnLimits
from storage.processes import Presence
from storage.store import Store
from worker.dispatch import Dispatch
from worker.environments.settings import EnvironmentSettings

GRADING_AT_ONCE = 32
COMPUTING_AT_ONCE = 2
TRIALS_AT_ONCE = 16
CHECKS_AT_ONCE = 2  # a zip file may take 70 MB of memory
LOOK_UPS_AT_ONCE = 40
READS_AT_ONCE = 8

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")


class Services:
    """The shared state of one API process."""

    def __init__(self, store: Store, pool: Pool, settings: ApiSettings | None = None) -> None:
        self.settings = settings or ApiSettings()
        self.environments = EnvironmentSettings()
        self.models = ModelSettings()
        self.store = store
        self.pool = pool
        pool.environments.fetch_from(store.spool.open_archive, store.archives.note_damage)
        self.asker = asker_of(store, self.models, pool)
        self.dispatch = Dispatch(store)
        self.failed_keys = FailedKeys(self.settings.failed_keys)
        self.strangers = Strangers(self.settings.strangers)
        self.shortages = Shortages(store, self.settings.asking_file)
        self.presence = Presence(store.processes, "api", self._trouble)
        self.watching = Watching(store)
        self.readiness = Readiness(store, pool, self.settings.registering_file)
        self.metrics = Metrics("api")
        registry = self.metrics.registry
        registry.register(pool.counts.registry)
        registry.register(self.asker.counts.registry)
        registry.register(Stored(store))
        troubles = Gauge("gradebox_troubles", "Troubles and warnings that `/readyz` names.", registry=registry)
        troubles.set_function(lambda: len(self.readiness.troubles()) + len(self.shortages.known))
        self.requests = Requests(registry)
        folder = self.settings.metrics_dir
        self.exposition = Exposition(registry if folder is None else MergedMetrics(registry, folder))
        self.memory = TenantMemory(self.settings.body_memory_mb * 1024 * 1024)
        self.connections = Connections(self.settings.connections)
        self.large_answers = LargeAnswers(self.settings.answer_memory_mb * 1024 * 1024)
        self.trials = Shares(TRIALS_AT_ONCE, "tests of models")
        self._grading = SharedThreads(Shares(GRADING_AT_ONCE, "calls that grade", instead="send a batch"))
        self._computing = SharedThreads(Shares(COMPUTING_AT_ONCE, "computations of statistics"))
        self.checking = SharedThreads(Shares(CHECKS_AT_ONCE, "checks of environment data"))
        self.reading = SharedThreads(Shares(READS_AT_ONCE, "places to read stored data or begin a batch"))
        self._look_ups = CapacityLimiter(LOOK_UPS_AT_ONCE)

    def _trouble(self) -> str | None:
        """Returns the trouble that this process reports every few seconds. It also looks for shortages, so that
        they are logged even if no request checks readiness.
        """
        self.shortages.look()
        return self.pool.trouble()

    @property
    def line_bytes(self) -> int:
        """The largest size of a thread, in bytes."""
        return self.pool.line_bytes

    @property
    def limits(self) -> Limits:
        """The limits of a project that has none of its own."""
        settings = self.settings
        return Limits(
            source_bytes=self.pool.settings.source_bytes,
            timeout_s=MAX_TIMEOUT_S,
            memory_mb=MAX_MEMORY_MB,
            score_threads=settings.score_threads,
            score_mb=settings.score_mb,
            batch_threads=settings.batch_threads,
            batch_mb=settings.batch_mb,
            batch_graders=settings.batch_graders,
        )

    def limits_of(self, own: OwnLimits) -> Limits:
        """The limits of a project with these of its own."""
        return self.limits.model_copy(update=own)

    def limits_for(self, request: HTTPConnection) -> Limits:
        """The limits of the project of a request that was identified; those of the service if it has no project."""
        return self.limits_of(request.state.own_limits)

    def answering(self, project: str, ask: Literal["real", "stand-in"] | None = None) -> ProjectAnswering:
        """Returns what answers the asks of a grader of this project while the grader is proved."""
        return ProjectAnswering(self.store, self.asker, project, stand_in=ask == "stand-in")

    async def look_up(self, find: Callable[[*_Args], _T], *args: *_Args) -> _T:
        """Runs `find`, which looks up an API key or a session, in a thread of its own set: it waits for no other work
        of any project.
        """
        return await run_sync(find, *args, limiter=self._look_ups)

    async def read(self, request: Request, work: Callable[[*_Args], _T], *args: *_Args) -> _T:
        """Runs `work` on stored data, of which a tenant may have much. The request's body has been read. The places are
        shared among the tenants.

        Raises:
            ProblemError: no place was free in time, or the client disconnected; also what `work` raises.
        """
        return await self.reading.run_for(request, tenant_of(request.scope), work, *args)

    async def grade(self, request: Request, project: str, work: Callable[[Caller, *_Args], _T], *args: *_Args) -> _T:
        """Runs `work`, which uses a sandbox, until the client disconnects. The request's body has been read."""
        async with watched(request) as client:
            return await self.grade_for(client, project, self.limits_for(request), work, *args)

    async def grade_for(
        self, client: WaitingClient, project: str, limits: Limits, work: Callable[[Caller, *_Args], _T], *args: *_Args
    ) -> _T:
        """Runs `work`, which uses a sandbox, in a thread. These threads have a limit of their own, shared among the
        projects, so that read-only requests never wait for slow graders.

        Raises:
            ProblemError: no thread or no sandbox was free in time, the client disconnected, or the project does not
                read its answers; also what `work` raises.
        """
        caller = Caller(client, project, limits, self.settings.score_s)
        try:
            async with client.place(self._grading.shares, project):
                await self.large_answers.room(client, project)  # what is refused may have a long report
                result = await self._grading.run_placed(work, caller, *args)
                if isinstance(result, bytes):
                    await self.large_answers.room(client, project, len(result))  # in its place, so that few wait
                return result
        except (Busy, Stopped) as error:
            raise problem_of(error) from error

    async def compute(self, request: Request, project: str, work: Callable[[IsGone, *_Args], _T], *args: *_Args) -> _T:
        """Runs `work`, which uses the statistics process, until the client disconnects. The request's body has been
        read. The places are shared among the projects.

        Raises:
            ProblemError: no place was free in time, or the client disconnected; also what `work` raises.
        """
        try:
            async with watched(request) as client:
                return await self._computing.run(client, project, work, client.is_gone, *args)
        except Stopped as error:
            raise problem_of(error) from error


class Release:
    """Middleware that releases what a request held once it is answered: body memory, and its tenant's connection."""

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
