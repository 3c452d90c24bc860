"""The thread of a worker that builds environments.

It is not an RQ job, because a worker executes one job at a time and a build takes as long as thousands of chunks.
Pending builds stay in Redis until they end, so a worker that dies loses nothing.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

import structlog
from redis.exceptions import RedisError

from runtime.periodic_thread import PeriodicThread
from sandbox.errors import SandboxError
from storage.environments.environment_builds import Claim, Made
from storage.errors import NotFound
from worker.context import WorkerContext
from worker.environments.build_steps import build
from worker.environments.data_zip import fetched
from worker.environments.environment_cache import noted
from worker.environments.settings import EnvironmentSettings
from worker.environments.uv import BuildFailed
from worker.redis_retry import retry_redis

_LOOK_S = 1.0
_RENEW_S = 2.0
_LONG_STEP_S = 5.0
_SWEEP_S = 3600.0
_LONGEST_S = 1800.0  # for one build

_log = structlog.get_logger(__name__)


class _NotWanted(Exception):
    """Another worker has the build now, or its environment was deleted, or this worker is stopping."""


class EnvironmentBuilder(PeriodicThread):
    """Checks every second for an environment to build."""

    def __init__(self, context: WorkerContext, settings: EnvironmentSettings) -> None:
        super().__init__("environment-builder", self._look, _LOOK_S)
        self._worker = context
        self._settings = settings
        self._builds = context.store.builds
        self._swept_at = 0.0

    def _look(self) -> None:
        self._sweep()
        while self._may_build() and (claim := self._builds.claim()) is not None:
            self.build(claim)

    def _may_build(self) -> bool:
        return self._settings.environments == "on" and not self._worker.stopping.is_set()

    def build(self, claim: Claim) -> None:
        """Makes one build. An interrupted build is started again when its lease has expired."""
        label, began = f"{claim.key}@{claim.number}", time.monotonic()
        _log.info("building an environment", environment=label, project=claim.project, tries=claim.tries)
        progress = _Progress(self._worker, claim)
        try:
            with self._renewing(claim):
                made = self._make(claim, progress)
        except (BuildFailed, NotFound) as failed:
            self._fail(claim, str(failed))
            _log.info("an environment cannot be built", environment=label, project=claim.project)
        except _NotWanted:
            if self._worker.stopping.is_set():
                self._builds.give_back(claim)
        except (OSError, SandboxError) as error:
            _log.warning("an environment could not be built", environment=label, error=str(error))
            self._fail(claim, f"the service could not build it: {_reason(error)}. Update it to try again")
        else:
            retry_redis(self._worker, partial(self._builds.finish, claim, made))
            took = round(time.monotonic() - began, 1)
            _log.info("an environment is ready", environment=label, project=claim.project, seconds=took)

    @contextmanager
    def _renewing(self, claim: Claim) -> Iterator[None]:
        """Keeps the lease through steps that report nothing for long, such as a sync of a slow disk."""
        ended = threading.Event()

        def renew() -> None:
            until = time.monotonic() + _LONGEST_S
            while not ended.wait(_LONG_STEP_S) and time.monotonic() < until:
                with suppress(RedisError):
                    self._builds.renew(claim)

        threading.Thread(target=renew, name="environment-lease", daemon=True).start()
        try:
            yield
        finally:
            ended.set()

    def _fail(self, claim: Claim, reason: str) -> None:
        retry_redis(self._worker, partial(self._builds.fail, claim, reason))

    def _make(self, claim: Claim, progress: "_Progress") -> Made:
        pool, store = self._worker.pool, self._worker.store
        with ExitStack() as opened:
            data = None
            if claim.data:
                sent = opened.enter_context(store.environment_data.open(claim.project, claim.data))
                folder = opened.enter_context(pool.environments.staging())
                data = opened.enter_context(fetched(sent, claim.data, folder, lambda: progress("fetching the data")))
            return build(claim.packages, pool, store.archives.keep, self._settings, progress, data)

    def _sweep(self) -> None:
        now = time.monotonic()
        if not self._swept_at or now - self._swept_at > _SWEEP_S:
            self._swept_at = now
            folders = self._worker.pool.environments
            needed = self._worker.store.environments.contents() | noted(folders)
            for name in folders.sweep(needed.__contains__):
                _log.info("removed an unused environment from this machine", folder=name)

    def end(self) -> None:
        """Ends the thread once `stopping` is set. Waits up to `stop_s` until the current build is given back."""
        super().end()
        self.join(timeout=self._worker.stop_s)


def _reason(error: OSError | SandboxError) -> str:
    """The text of an error for a tenant: without the paths of this machine that an OSError names."""
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)


class _Progress:
    """Renews the lease of a build, and records its current step."""

    def __init__(self, context: WorkerContext, claim: Claim) -> None:
        self._context = context
        self._claim = claim
        self._step = ""
        self._recorded_at = time.monotonic()
        self._began = self._recorded_at

    def __call__(self, step: str) -> None:
        """Records the current step. Raises _NotWanted if this worker must end the build, and BuildFailed if the build
        takes too long.
        """
        if self._context.stopping.is_set():
            raise _NotWanted
        now = time.monotonic()
        if step == self._step and now - self._recorded_at < _RENEW_S:
            return
        if now - self._began > _LONGEST_S:
            raise BuildFailed(f"it was not built within {_LONGEST_S:g} s: ask for fewer packages")
        self._step, self._recorded_at = step, now
        if not retry_redis(self._context, partial(self._context.store.builds.renew, self._claim, step)):
            raise _NotWanted
