"""The sandboxes of a process: empty ones, started in advance, and loaded ones, kept for the next use."""

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from math import inf
from pathlib import Path
from time import monotonic

from sandbox import shared_folders
from sandbox.backends.base import Backend
from sandbox.errors import InfrastructureError, StillRunning, Stopped
from sandbox.grader_source import GraderSource
from sandbox.grading.channel import Stopping
from sandbox.grading.session import Session
from sandbox.limits import MIB
from sandbox.pool.counts import Counts
from sandbox.pool.fair_shares import Shares
from sandbox.pool.loaded_sandboxes import LoadedSandboxes, largest
from sandbox.pool.start_trouble import StartTrouble
from sandbox.settings import SandboxSettings

WAIT_S = 60.0  # for a place, if all are taken; and for a sandbox to be started
_ASK_S = 0.2  # between two checks whether the caller still waits for a sandbox
_LOOK_S = 1.0  # between two checks for sandboxes that have been idle for too long
# Starting a sandbox takes at least 10 ms of processor time. If no caller waits for it, other work goes first:
_QUIET_S = 0.02  # it begins once no grader was in use for this long,
_PATIENCE_S = 0.25  # or if there was no quiet moment for this long

_log = logging.getLogger(__name__)


class _Order:
    """A request for a sandbox with the packages of an environment, which is not kept ready."""

    def __init__(self, environment: Path) -> None:
        self.environment = environment
        self.session: Session | None = None
        self.failure = ""


class ReadySandboxes:
    """The sandboxes of a process. Thread-safe. One thread, the builder, starts all of them."""

    def __init__(self, backend: Backend, settings: SandboxSettings, counts: Counts, memory: Shares) -> None:
        """`memory`, in MiB, is shared by the graders in use; idle loaded ones may have the rest."""
        self._backend = backend
        self._settings = settings
        self._counts = counts
        self._memory = memory
        self._changed = threading.Condition()
        self._empty: list[Session] = []
        self._idle = LoadedSandboxes()
        self._orders: list[_Order] = []  # not started yet
        self._alive = 0  # all sandboxes, including busy ones and those being started
        self._waiting = 0
        self._in_use = 0  # graders that are lent
        self._used_at = 0.0
        self._starts = StartTrouble()
        self._weighed_at = 0.0
        self._closed = False
        # A sandbox may die with the thread that started it: one that lives as long as this object starts all of them.
        self._builder = threading.Thread(target=self._build, name="sandbox-builder", daemon=True)

    def start(self) -> None:
        """Starts the builder."""
        self._builder.start()

    def close(self) -> None:
        """Ends every sandbox."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._builder.join()
        self._backend.close()

    def trouble(self) -> str | None:
        """The reason why sandboxes are unavailable at present; None if they are available."""
        with self._changed:
            return self._starts.told()

    @property
    def alive(self) -> int:
        """The number of sandboxes, including those that are being started."""
        return self._alive

    def use(self, more: int) -> None:
        """Changes the number of graders in use by `more`, which may be negative."""
        with self._changed:
            self._in_use += more
            self._used_at = monotonic()

    def take_loaded(self, source: GraderSource) -> Session | None:
        """Removes and returns the most recently used sandbox with this grader; None if there is none."""
        with self._changed:
            return self._idle.take(source)

    def keep_loaded(self, session: Session) -> bool:
        """Keeps a sandbox for the next use of its grader; False if this is closed."""
        session.used_at = monotonic()
        with self._changed:
            if self._closed:
                return False
            self._idle.add(session)
            if self._waiting or self._is_behind():
                self._changed.notify_all()
            return True

    def take_empty(self, began: float, stopping: Stopping | None, environment: Path | None = None) -> Session:
        """Returns an empty sandbox; the caller has waited for it since `began`. All ready ones may have ended at once,
        with the zygote.

        A sandbox with the packages of an environment is started for this caller.

        Raises:
            InfrastructureError: none could be started, or not in time.
            Stopped: `stopping` returned True.
        """
        if environment is not None:
            session = self._take_ordered(_Order(environment), stopping)
            self._counts.wait.observe(monotonic() - began)
            return session
        session = self._take_next(stopping)
        for _ in range(self._settings.warm_sandboxes):
            if not session.is_gone():
                break
            self.end(session, "crash")
            session = self._take_next(stopping)
        self._counts.wait.observe(monotonic() - began)
        return session

    def _take_next(self, stopping: Stopping | None) -> Session:
        self._want(1)
        try:
            return self._wait(lambda: self._empty.pop() if self._empty else None, self._starts.told, stopping)
        finally:
            self._want(-1)

    def _want(self, more: int) -> None:
        with self._changed:
            self._waiting += more
            self._changed.notify_all()

    def _take_ordered(self, order: _Order, stopping: Stopping | None) -> Session:
        with self._changed:
            self._orders.append(order)
            self._changed.notify_all()
        try:
            return self._wait(lambda: order.session, lambda: order.failure or self._starts.told(), stopping)
        except BaseException:
            with self._changed:
                order.failure = "no caller waits for it"
                if order in self._orders:
                    self._orders.remove(order)
                started = order.session
            if started is not None:  # the builder started it just before
                self.end(started, "unused")
            raise

    def _wait(
        self, found: Callable[[], Session | None], trouble: Callable[[], str | None], stopping: Stopping | None
    ) -> Session:
        """Waits for a result of `found`. Raises InfrastructureError with the text of `trouble`, if there is some."""
        deadline = monotonic() + WAIT_S
        while True:
            self.look(stopping)  # it may query Redis, so it is called without the lock
            with self._changed:
                if (session := found()) is not None:
                    return session
                if why := trouble():
                    raise InfrastructureError(why)
                if monotonic() >= deadline:
                    raise InfrastructureError(f"no sandbox was started within {WAIT_S:g} s: the machine is too busy")
                self._changed.wait(_ASK_S)

    def look(self, stopping: Stopping | None) -> None:
        """Raises an exception if the caller must no longer wait for a sandbox."""
        if self._closed:
            raise InfrastructureError("the service is stopping")
        if stopping is not None and stopping():
            raise Stopped("the caller no longer waits")

    def end(self, session: Session, why: str) -> None:
        """Ends a sandbox, and counts the reason `why`. One that does not exit keeps its place until it has exited."""
        self._counts.ended[why].inc()
        try:
            self._end(session)
        except StillRunning as error:
            self._counts.ends_failed.inc()
            _log.error("a sandbox keeps its place: %s", error)
            threading.Thread(target=self._await_end, args=(session,), name="sandbox-end", daemon=True).start()

    def _await_end(self, session: Session) -> None:
        while True:
            with suppress(StillRunning):
                self._end(session)
                return

    def _end(self, session: Session) -> None:
        try:
            session.end()
        except StillRunning:
            raise
        except Exception:  # noqa: BLE001  # in spite of any error its scores count, and other sandboxes can be started
            self._counts.ends_failed.inc()
            _log.exception("a sandbox could not be ended, parts of it may remain")
        with self._changed:
            self._alive -= 1
            self._changed.notify_all()

    def _build(self) -> None:
        """Runs the builder: starts the sandboxes that are lacking, ends those that are outdated."""
        try:
            self._keep_building()
        except BaseException as error:
            _log.exception("the thread that starts sandboxes ends")
            with self._changed:
                self._starts.ended(_describe(error))
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
                order = self._orders.pop(0) if starting and self._orders else None
                self._alive += starting
            for session in ending:
                self.end(session, "closed" if closed else "unused")
            if closed:
                return  # only after they have ended: bubblewrap dies with this thread, and would leave zombies
            if starting:
                self._start(order)

    def _is_behind(self) -> bool:
        """Whether there are too few empty sandboxes, or too many loaded ones."""
        return self._may_start() or len(self._idle) > self._settings.loaded_sandboxes

    def _is_pressing(self, behind_since: float) -> bool:
        """Whether the pending work is to be done now."""
        now = monotonic()
        is_quiet = not self._in_use and now - self._used_at >= _QUIET_S
        is_wanted = bool(self._orders) or self._waiting > len(self._empty)
        return self._is_behind() and (is_wanted or is_quiet or now - behind_since >= _PATIENCE_S)

    def _all_unused(self) -> list[Session]:
        empty, self._empty = self._empty, []
        return empty + self._idle.take_oldest(len(self._idle), self._settings.idle_s)

    def _may_start(self) -> bool:
        if self._starts.is_pausing:
            return False
        if self._orders:
            return self._alive < self._settings.most_sandboxes or bool(self._idle or self._empty)
        # After a failure, one is started even if no caller waits, to find out whether starts succeed again.
        wanted = max(self._settings.warm_sandboxes, self._waiting, int(self._starts.is_failing))
        room = self._alive < self._settings.most_sandboxes or bool(
            (self._waiting or self._starts.is_failing) and self._idle
        )
        return len(self._empty) < wanted and room

    def _outdated(self, pressing: bool) -> list[Session]:
        """Removes and returns sandboxes to be ended: idle too long, too many, or in the way of a waiting caller."""
        if self._orders and not self._idle and self._alive >= self._settings.most_sandboxes:
            return [self._empty.pop()] if self._empty else []
        surplus = len(self._idle) - self._settings.loaded_sandboxes if pressing else 0
        is_wanted = bool(self._waiting or self._starts.is_failing or self._orders)
        in_the_way = int(is_wanted and self._alive >= self._settings.most_sandboxes)
        return self._idle.take_oldest(max(surplus, in_the_way), self._settings.idle_s)

    def _weigh(self) -> None:
        """Ends idle graders, the largest first, until the others fit beside the memory reserved for those in use."""
        with self._changed:
            if monotonic() - self._weighed_at < _LOOK_S:
                return
            idle = [*self._idle]
        for session in largest(idle, lambda: (self._memory.most - self._memory.held) * MIB):
            with self._changed:
                is_idle = self._idle.take_back(session)
            if is_idle:
                self.end(session, "memory")
        self._weighed_at = monotonic()

    def _start(self, order: _Order | None) -> None:
        """Starts an empty sandbox, or the sandbox of an order."""
        environment = order.environment if order else None
        used = ExitStack()
        try:
            if environment is not None:
                used.enter_context(shared_folders.in_use(environment))
            session = Session(self._backend.start(environment), used)
        except Exception as error:  # noqa: BLE001  # the caller gets any error, and the next attempt may succeed
            used.close()
            self._fail(error, order)
            return
        self._counts.started.inc()
        with self._changed:
            if self._hand_over(session, order):
                self._changed.notify_all()
                return
        self.end(session, "closed" if self._closed else "unused")

    def _hand_over(self, session: Session, order: _Order | None) -> bool:
        """Gives a sandbox to the waiting callers; False if it is no longer needed."""
        if order is None:
            self._starts.started()
            if not self._closed:
                self._empty.append(session)
            return not self._closed
        if order.failure or self._closed:
            return False
        order.session = session
        return True

    def _fail(self, error: Exception, order: _Order | None) -> None:
        """Records that a sandbox could not be started. A failed order does not affect other callers."""
        self._counts.starts_failed.inc()
        known = isinstance(error, InfrastructureError)
        _log.error("a sandbox could not be started: %s", error, exc_info=None if known else error)
        told = str(error) if known else _describe(error)
        with self._changed:
            self._alive -= 1
            if order is None:
                self._starts.failed(told)
            else:
                order.failure = told
            self._changed.notify_all()


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
