"""Lends sandboxes with loaded graders; projects share the sandboxes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic
from types import TracebackType
from typing import Self

from gradebox.schemas import Report
from sandbox.backend_choice import choose
from sandbox.backends.base import Backend
from sandbox.environments import EnvironmentFolders
from sandbox.errors import InfrastructureError
from sandbox.grader_source import GraderSource
from sandbox.grading import five_checks
from sandbox.grading.channel import Ended, Stopping
from sandbox.grading.grading import Grading
from sandbox.grading.session import Session
from sandbox.guest.protocol.grader_limits import GraderLimits
from sandbox.kernel.usage import processor_count
from sandbox.limits import SANDBOX_MIB, limits_of
from sandbox.pool.counts import Counts
from sandbox.pool.fair_shares import Shares
from sandbox.pool.ready_sandboxes import WAIT_S, ReadySandboxes
from sandbox.settings import SandboxSettings

_TRIES = 3  # to load a grader, if its sandbox ends meanwhile


class Pool:
    """A pool of sandboxes. Thread-safe. A sandbox only ever holds one grader; after any irregularity it is replaced.

    Attributes:
        counts: metrics: loads by whether the grader was loaded already, starts, and ends by reason.
        environments: the packages that graders may import, on this machine.
        settings: the settings of its sandboxes.
    """

    def __init__(self, backend: Backend, settings: SandboxSettings, counts: Counts | None = None) -> None:
        self.counts = counts or Counts()
        self.environments = EnvironmentFolders(settings)
        self.settings = settings
        self._shares = Shares(settings.most_sandboxes, "sandboxes", "GRADEBOX_MOST_SANDBOXES", "send a batch")
        of_memory = "MiB of memory for sandboxes", "GRADEBOX_SANDBOXES_MEMORY_MB", "send a batch"
        self._memory = Shares(settings.most_memory_mb, *of_memory)
        self._ready = ReadySandboxes(backend, settings, self.counts, self._memory)
        self.counts.watch(lambda: self._ready.alive)

    def __enter__(self) -> Self:
        self._ready.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends every sandbox; grading that is still in progress ends with an InfrastructureError."""
        self._ready.close()

    def trouble(self) -> str | None:
        """The reason why sandboxes are unavailable at present; None if they are available."""
        return self._ready.trouble()

    @property
    def line_bytes(self) -> int:
        """The maximum length of a thread, in bytes."""
        return self.settings.line_bytes

    @property
    def alive(self) -> int:
        """The number of sandboxes, including those that are being started."""
        return self._ready.alive

    def spare_processors(self) -> int:
        """The number of processors without a sandbox in use; negative if there are more sandboxes in use, or if a
        project waits for one.
        """
        if self._shares.is_waited_for or self._memory.is_waited_for:
            return -1
        return processor_count() - self._shares.held

    def prove(
        self,
        source: GraderSource,
        threads: Sequence[bytes] | None = None,
        stopping: Stopping | None = None,
        answering: five_checks.Answering | None = None,
    ) -> Report:
        """Runs the five checks. Each thread is one line of JSON. `answering` answers the grader's asks.

        Raises:
            InfrastructureError: no sandbox is available, or this machine was too busy for a result.
            Stopped: `stopping` returned True.
        """
        with self.grading(source) as grading:
            return five_checks.prove(grading, threads, stopping, answering)

    @contextmanager
    def grading(self, source: GraderSource, place_s: float | None = None) -> Iterator[Grading]:
        """Lends a sandbox that loads this grader when it is needed.

        If the grader cannot be loaded, the outcomes contain that error. If others use all places, the wait for a place
        takes at most `place_s` seconds, or a minute by default.
        """
        place = _Place(self._shares, self._memory, source, WAIT_S if place_s is None else place_s)
        grading = Grading(lambda stopping: self._loaded(source, place, stopping), self._ready.end)
        self._ready.use(1)
        try:
            yield grading
        except BaseException:
            if session := grading.release():
                self._ready.end(session, "abandoned")  # it may still be running
            raise
        else:
            if session := grading.release():
                self._give_back(session)
        finally:
            place.leave()
            self._ready.use(-1)

    def _loaded(self, source: GraderSource, place: "_Place", stopping: Stopping | None) -> Session:
        began = monotonic()
        place.take(lambda: self._ready.look(stopping))
        if session := self._take_loaded(source, stopping):
            self.counts.hits.inc()
            if source.environment:
                with suppress(OSError):  # the environment was removed by hand: this sandbox has loaded what it needs
                    self.environments.note_use(source.environment)
            return session
        self.counts.misses.inc()
        environment = self.environments.find(source.environment) if source.environment else None
        tries = _TRIES + self.settings.warm_sandboxes  # the warm ones may all be ending, with the zygote
        for _ in range(tries):
            session = self._ready.take_empty(began, stopping, environment)
            began = monotonic()
            try:
                session.load(source, self._limits(source), stopping)
            except Ended as ended:
                error: Exception = ended
                self._ready.end(session, "crash")
            except BaseException:
                self._ready.end(session, "abandoned")
                raise
            else:
                return session
        raise InfrastructureError(f"a grader could not be loaded in {tries} sandboxes: {error}")

    def _limits(self, source: GraderSource) -> GraderLimits:
        settings = self.settings
        keep_unknown = settings.unknown_members == "keep"
        return limits_of(
            source,
            settings.load_s,
            settings.line_bytes,
            settings.stdout_bytes,
            keep_unknown,
            settings.processes,
            settings.scratch_files,
            settings.text_bytes,
            settings.line_depth,
        )

    def _take_loaded(self, source: GraderSource, stopping: Stopping | None) -> Session | None:
        while (found := self._ready.take_loaded(source)) is not None:
            try:
                found.settle(stopping)
            except Ended:
                self._ready.end(found, "tainted")
            except BaseException:
                self._ready.end(found, "abandoned")
                raise
            else:
                if not found.is_gone():  # several may have ended at once, with the zygote
                    return found
                self._ready.end(found, "crash")
        return None

    def _give_back(self, session: Session) -> None:
        if session.loaded is None or session.loaded.isolation is None:
            self._ready.end(session, "refused")  # it holds no grader
            return
        try:
            session.reset()
        except (Ended, OSError):  # OSError: no descriptors left. The scores count all the same
            self._ready.end(session, "tainted")
            return
        if not self._ready.keep_loaded(session):
            self._ready.end(session, "closed")


class _Place:
    """A project's place for one sandbox: taken when it is first needed, and kept if the sandbox is replaced."""

    def __init__(self, sandboxes: Shares, memory: Shares, source: GraderSource, wait_s: float) -> None:
        self._wait_s = wait_s
        self._wanted = ((sandboxes, 1), (memory, source.memory_mb + SANDBOX_MIB))
        self._project = source.project
        self._taken = ExitStack()
        self._is_taken = False

    def take(self, look: Callable[[], None]) -> None:
        """Waits for the place, if it is not taken yet. Raises Busy, or what `look` raises."""
        if self._is_taken:
            return
        with ExitStack() as taken:
            for shares, places in self._wanted:
                shares.enter(self._project, self._wait_s, look, places)
                taken.callback(shares.leave, self._project, places)
            self._taken = taken.pop_all()
        self._is_taken = True

    def leave(self) -> None:
        """Gives the place back, if it was taken."""
        self._is_taken = False
        self._taken.close()


def open_pool(settings: SandboxSettings | None = None, counts: Counts | None = None) -> Pool:
    """Opens a pool on the backend that the settings name.

    Raises:
        IsolationUnavailable: no backend is safe here; the message explains how to make one safe.
    """
    settings = settings or SandboxSettings()
    return Pool(choose(settings), settings, counts)
