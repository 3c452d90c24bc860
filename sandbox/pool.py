"""Sandboxes, started ahead of need and kept while they hold a grader that is used."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from math import inf
from time import monotonic
from types import TracebackType
from typing import Self

from gradebox.schemas import Report
from sandbox import proof
from sandbox.backend_choice import choose
from sandbox.backends.base import Backend
from sandbox.counts import Counts
from sandbox.errors import InfrastructureError, Stopped
from sandbox.fair_shares import Shares
from sandbox.grader_source import GraderSource
from sandbox.grading import Grading
from sandbox.guest.protocol.frames import Limits
from sandbox.limits import MIB, SANDBOX_MIB, limits_of
from sandbox.session import Ended, Session, Stopping
from sandbox.settings import SandboxSettings

_WAIT_S = 60.0  # for a place, when as many as may be are taken; and for a sandbox to be started
_ASK_S = 0.2  # between two questions whether the caller still wants a sandbox
_LOOK_S = 1.0  # between two looks for sandboxes that have idled long enough
_TRIES = 3  # to load a grader, when its sandbox ends meanwhile
# Starting a sandbox takes 10 ms of a processor and more. Where nobody waits for it, others come first:
_QUIET_S = 0.02  # it begins when no grader was in use for so long,
_PATIENCE_S = 0.25  # or when there was no such moment for so long
_RETRY_S = 1.0  # between two tries to start a sandbox, after one that failed

_log = logging.getLogger(__name__)


class Pool:
    """Thread-safe. A sandbox holds one grader ever; after anything odd it is made anew.

    Attributes:
        counts: loads by whether one was there already, starts, and ends by why, for metrics.
    """

    def __init__(
        self, backend: Backend, settings: SandboxSettings, resets_later: bool = False, counts: Counts | None = None
    ) -> None:
        """`resets_later`: whoever is done with a grader goes on at once, and the owner calls `reset` a moment later."""
        self.counts = counts or Counts()
        self.counts.watch(lambda: self._alive)
        self._backend = backend
        self._settings = settings
        self._resets_later = resets_later
        self._shares = Shares(settings.most_sandboxes, "sandboxes", "GRADEBOX_MOST_SANDBOXES")
        self._memory = Shares(settings.most_memory_mb, "MiB of memory for sandboxes", "GRADEBOX_SANDBOXES_MEMORY_MB")
        self._changed = threading.Condition()
        self._empty: list[Session] = []
        self._idle: list[Session] = []  # loaded; the one used last comes last
        self._alive = 0  # all of them, busy ones and those being started too
        self._waiting = 0
        self._in_use = 0
        self._used_at = 0.0
        self._failure = ""  # why no sandbox could be started the last time; empty when one could
        self._failing_since = 0.0
        self._retry_at = 0.0
        self._weighed_at = 0.0
        self._ended_by = ""
        self._closed = False
        # A sandbox may die with the thread that started it: one that lives as long as the pool starts them all.
        self._builder = threading.Thread(target=self._build, name="sandbox-builder", daemon=True)

    def __enter__(self) -> Self:
        self._builder.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends every sandbox; what is still graded in one comes to an InfrastructureError."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._builder.join()
        self._backend.close()

    def trouble(self) -> str | None:
        """Why sandboxes cannot be had at present; None when all is well."""
        with self._changed:
            return self._trouble()

    def _trouble(self) -> str | None:
        if self._ended_by:
            return f"the thread that starts sandboxes has ended: {self._ended_by}"
        if self._failure:
            return f"no sandbox could be started for {monotonic() - self._failing_since:.0f} s: {self._failure}"
        return None

    @property
    def line_bytes(self) -> int:
        """How long a thread may be."""
        return self._settings.line_bytes

    @property
    def alive(self) -> int:
        """How many sandboxes there are, those that are being started too."""
        return self._alive

    def prove(
        self, source: GraderSource, threads: Sequence[bytes] | None = None, stopping: Stopping | None = None
    ) -> Report:
        """The five checks. Each thread is one line of JSON.

        Raises:
            InfrastructureError: no sandbox could be had, or this machine was too busy to tell.
            Stopped: `stopping` said so.
        """
        with self.grading(source) as grading:
            return proof.prove(grading, threads, stopping)

    @contextmanager
    def grading(self, source: GraderSource) -> Iterator[Grading]:
        """A sandbox that loads this grader when it is needed. What cannot be loaded gives outcomes that say so."""
        place = _Place(self._shares, self._memory, source)
        grading = Grading(lambda stopping: self._loaded(source, place, stopping), self._end)
        self._use(1)
        try:
            yield grading
        except BaseException:
            if session := grading.release():
                self._end(session, "abandoned")  # who knows what it is still doing
            raise
        else:
            if session := grading.release():
                self._give_back(session)
        finally:
            place.leave()
            self._use(-1)

    def _use(self, more: int) -> None:
        with self._changed:
            self._in_use += more
            self._used_at = monotonic()

    def reset(self) -> None:
        """Has loaded graders forget what came of their last batch, where they have not yet. It waits for nothing."""
        with self._changed:
            for session in self._idle:
                with suppress(Ended, OSError):  # whoever takes it hears of that, too
                    session.reset()

    def _loaded(self, source: GraderSource, place: "_Place", stopping: Stopping | None) -> Session:
        began = monotonic()
        place.take(lambda: self._look(stopping))
        if session := self._take_idle(source, stopping):
            self.counts.hits.inc()
            return session
        self.counts.misses.inc()
        for _ in range(_TRIES):
            session = self._take_living(began, stopping)
            began = monotonic()
            try:
                session.load(source, self._limits(source), stopping)
            except Ended as ended:
                error: Exception = ended
                self._end(session, "crash")
            except BaseException:
                self._end(session, "abandoned")
                raise
            else:
                return session
        raise InfrastructureError(f"a grader could not be loaded in {_TRIES} sandboxes: {error}")

    def _limits(self, source: GraderSource) -> Limits:
        settings = self._settings
        keep_unknown = settings.unknown_members == "keep"
        return limits_of(source, settings.load_s, settings.line_bytes, settings.stdout_bytes, keep_unknown)

    def _take_idle(self, source: GraderSource, stopping: Stopping | None) -> Session | None:
        while True:
            with self._changed:
                found = next((session for session in reversed(self._idle) if session.source == source), None)
                if found is None:
                    return None
                self._idle.remove(found)
            try:
                found.reset()
                found.settle(stopping)
            except (Ended, OSError):
                self._end(found, "tainted")
            except BaseException:
                self._end(found, "abandoned")
                raise
            else:
                return found

    def _take_living(self, began: float, stopping: Stopping | None) -> Session:
        """An empty sandbox. All that wait may have ended at once, with the zygote."""
        session = self._take_empty(stopping)
        for _ in range(self._settings.warm_sandboxes):
            if not session.is_gone():
                break
            self._end(session, "crash")
            session = self._take_empty(stopping)
        self.counts.wait.observe(monotonic() - began)
        return session

    def _take_empty(self, stopping: Stopping | None) -> Session:
        deadline = monotonic() + _WAIT_S
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            try:
                while not self._empty:
                    self._look(stopping)
                    if trouble := self._trouble():
                        raise InfrastructureError(trouble)
                    if monotonic() >= deadline:
                        raise InfrastructureError(
                            f"no sandbox was started within {_WAIT_S:g} s: the machine is too busy"
                        )
                    self._changed.wait(_ASK_S)
                return self._empty.pop()
            finally:
                self._waiting -= 1
                self._changed.notify_all()

    def _look(self, stopping: Stopping | None) -> None:
        """Raises where a sandbox is no longer to be waited for."""
        if self._closed:
            raise InfrastructureError("the service is stopping")
        if stopping is not None and stopping():
            raise Stopped("the caller wants no more")

    def _give_back(self, session: Session) -> None:
        if session.loaded is None or session.loaded.isolation is None:
            self._end(session, "refused")  # it holds no grader
            return
        session.used_at = monotonic()
        if not self._resets_later:
            try:
                session.reset()
            except (Ended, OSError):  # OSError: no descriptors left. What was scored counts all the same
                self._end(session, "tainted")
                return
        with self._changed:
            if not self._closed:
                self._idle.append(session)
                if self._waiting or self._is_behind():
                    self._changed.notify_all()
                return
        self._end(session, "closed")

    def _end(self, session: Session, why: str) -> None:
        try:
            session.end()
        except Exception:  # noqa: BLE001  # whatever it is, the scores that it gave count, and others are still started
            self.counts.ends_failed.inc()
            _log.exception("a sandbox could not be ended, something of it may be left")
        self.counts.ended[why].inc()
        with self._changed:
            self._alive -= 1
            self._changed.notify_all()

    def _build(self) -> None:
        """The builder's life: starts what is lacking, ends what has had its time."""
        try:
            self._keep_building()
        except BaseException as error:
            _log.exception("the thread that starts sandboxes ends")
            with self._changed:
                self._ended_by = _told(error)
                self._changed.notify_all()
            raise

    def _keep_building(self) -> None:
        behind_since = inf
        while True:
            self._weigh()
            with self._changed:
                behind_since = min(behind_since, monotonic()) if self._is_behind() else inf
                if not self._closed and not self._is_pressing(behind_since):
                    self._changed.wait(_LOOK_S if behind_since == inf else _QUIET_S)
                closed, pressing = self._closed, self._is_pressing(behind_since)
                ending = self._all_unused() if closed else self._outdated(pressing)
                starting = not closed and pressing and self._may_start()
                self._alive += starting
            for session in ending:
                self._end(session, "closed" if closed else "unused")
            if closed:
                return  # not before they have ended: bubblewrap dies with this thread, and would leave zombies
            if starting:
                self._start_one()

    def _is_behind(self) -> bool:
        """Whether there are too few empty sandboxes, or too many loaded ones."""
        return self._may_start() or len(self._idle) > self._settings.loaded_sandboxes

    def _is_pressing(self, behind_since: float) -> bool:
        """Whether what is to be done is to be done now."""
        now = monotonic()
        is_quiet = not self._in_use and now - self._used_at >= _QUIET_S
        return self._is_behind() and (self._waiting > len(self._empty) or is_quiet or now - behind_since >= _PATIENCE_S)

    def _all_unused(self) -> list[Session]:
        unused, self._empty, self._idle = self._empty + self._idle, [], []
        return unused

    def _may_start(self) -> bool:
        if self._failure and monotonic() < self._retry_at:
            return False
        # After a failure one is started also where nobody waits: how else would it be known that all is well again?
        wanted = max(self._settings.warm_sandboxes, self._waiting, 1 if self._failure else 0)
        room = self._alive < self._settings.most_sandboxes or bool((self._waiting or self._failure) and self._idle)
        return len(self._empty) < wanted and room

    def _outdated(self, pressing: bool) -> list[Session]:
        """Takes off the shelf: what idled too long, what is too many, and what is in the way of somebody waiting."""
        idle, now = self._idle, monotonic()
        surplus = len(idle) - self._settings.loaded_sandboxes if pressing else 0
        is_wanted = bool(self._waiting or self._failure)
        in_the_way = 1 if is_wanted and self._alive >= self._settings.most_sandboxes else 0
        number = max(surplus, in_the_way, sum(now - session.used_at > self._settings.idle_s for session in idle))
        outdated = idle[:number] if number > 0 else []
        del idle[: len(outdated)]
        return outdated

    def _weigh(self) -> None:
        """Ends idle graders, the largest first, until they leave those in use the memory that these may come to want.

        What an idle one holds is measured, not what it may: most graders hold a tenth of that.
        """
        with self._changed:
            if monotonic() - self._weighed_at < _LOOK_S:
                return
            idle = [*self._idle]
        sizes = {session: session.memory_bytes() for session in idle}
        self._weighed_at = monotonic()
        surplus = sum(sizes.values()) - (self._memory.most - self._memory.held) * MIB
        for session in sorted(idle, key=sizes.__getitem__, reverse=True):
            if surplus <= 0:
                return
            surplus -= sizes[session]
            with self._changed:
                if session not in self._idle:
                    continue  # it is in use again
                self._idle.remove(session)
            self._end(session, "memory")

    def _start_one(self) -> None:
        try:
            session = Session(self._backend.start())
        except Exception as error:  # noqa: BLE001  # whatever it is: who waits is told, and the next try may succeed
            self._fail(error)
            return
        self.counts.started.inc()
        with self._changed:
            self._failure = ""
            if not self._closed:
                self._empty.append(session)
                self._changed.notify_all()
                return
        self._end(session, "closed")

    def _fail(self, error: Exception) -> None:
        """Notes that a sandbox could not be started."""
        self.counts.starts_failed.inc()
        known = isinstance(error, InfrastructureError)
        _log.error("a sandbox could not be started: %s", error, exc_info=None if known else error)
        with self._changed:
            self._alive -= 1
            now = monotonic()
            if not self._failure:
                self._failing_since = now
            self._failure = str(error) if known else _told(error)
            self._retry_at = now + _RETRY_S
            self._changed.notify_all()


class _Place:
    """A project's place for one sandbox: taken when it is first needed, and kept while one sandbox follows another."""

    def __init__(self, sandboxes: Shares, memory: Shares, source: GraderSource) -> None:
        self._wanted = ((sandboxes, 1), (memory, source.memory_mb + SANDBOX_MIB))
        self._project = source.project
        self._taken = ExitStack()
        self._is_taken = False

    def take(self, look: Callable[[], None]) -> None:
        """Waits for it, if need be. Raises Busy, or what `look` raises."""
        if self._is_taken:
            return
        with ExitStack() as taken:
            for shares, places in self._wanted:
                shares.enter(self._project, _WAIT_S, look, places)
                taken.callback(shares.leave, self._project, places)
            self._taken = taken.pop_all()
        self._is_taken = True

    def leave(self) -> None:
        """Gives it back, where it was taken."""
        self._is_taken = False
        self._taken.close()


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def open_pool(
    settings: SandboxSettings | None = None, resets_later: bool = False, counts: Counts | None = None
) -> Pool:
    """A pool on the backend that the settings name; `resets_later` and `counts` as `Pool` takes them.

    Raises:
        IsolationUnavailable: it is not safe here; the message says how to make it so.
    """
    settings = settings or SandboxSettings()
    return Pool(choose(settings), settings, resets_later, counts)
