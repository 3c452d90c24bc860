"""Sandboxes, started ahead of need and kept while they hold a grader that is used."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from time import monotonic
from types import TracebackType
from typing import Self

from gradebox.schemas import Report
from sandbox import proof
from sandbox.backends.base import Backend
from sandbox.choice import choose
from sandbox.counts import Counts
from sandbox.errors import InfrastructureError
from sandbox.grader_source import GraderSource
from sandbox.grading import Grading
from sandbox.guest.frames import Limits
from sandbox.limits import limits_of
from sandbox.session import Ended, Session
from sandbox.settings import SandboxSettings

_WAIT_S = 60.0  # for a sandbox, when as many as may be are busy
_LOOK_S = 1.0  # between two looks for sandboxes that have idled long enough
_TRIES = 3  # to load a grader, when its sandbox ends meanwhile
# Starting a sandbox takes 10 ms of a processor and more. Where nobody waits for it, others come first:
_QUIET_S = 0.02  # it begins when no grader was in use for so long,
_PATIENCE_S = 0.25  # or when there was no such moment for so long


class Pool:
    """Thread-safe. A sandbox holds one grader ever; after anything odd it is made anew.

    Attributes:
        counts: loads by whether one was there already, starts, and ends by why.
    """

    def __init__(self, backend: Backend, settings: SandboxSettings, resets_later: bool = False) -> None:
        """`resets_later`: whoever is done with a grader goes on at once, and the owner calls `reset` a moment later."""
        self.counts = Counts()
        self._backend = backend
        self._settings = settings
        self._resets_later = resets_later
        self._changed = threading.Condition()
        self._empty: list[Session] = []
        self._idle: list[Session] = []  # loaded; the one used last comes last
        self._alive = 0  # all of them, busy ones and those being started too
        self._waiting = 0
        self._in_use = 0
        self._used_at = 0.0
        self._failure: InfrastructureError | None = None
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

    @property
    def line_bytes(self) -> int:
        """How long a thread may be."""
        return self._settings.line_bytes

    @property
    def alive(self) -> int:
        """How many sandboxes there are, those that are being started too."""
        return self._alive

    def prove(self, source: GraderSource, threads: Sequence[bytes] | None = None) -> Report:
        """The five checks. Each thread is one line of JSON.

        Raises:
            InfrastructureError: no sandbox could be had.
        """
        with self.grading(source) as grading:
            return proof.prove(grading, threads)

    @contextmanager
    def grading(self, source: GraderSource) -> Iterator[Grading]:
        """A sandbox that has loaded this grader. What cannot be loaded gives outcomes that say so.

        Raises:
            InfrastructureError: no sandbox could be had.
        """
        grading = Grading(lambda: self._loaded(source), self._end)
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
            self._use(-1)

    def _use(self, more: int) -> None:
        with self._changed:
            self._in_use += more
            self._used_at = monotonic()

    def reset(self) -> None:
        """Has loaded graders forget what came of their last batch, where they have not yet. It waits for nothing."""
        with self._changed:
            for session in self._idle:
                with suppress(Ended):  # whoever takes it hears of that, too
                    session.reset()

    def _loaded(self, source: GraderSource) -> Session:
        if session := self._take_idle(source):
            self.counts.add("pool:hit")
            return session
        self.counts.add("pool:miss")
        for _ in range(_TRIES):
            session = self._take_living()
            try:
                session.load(source, self._limits(source))
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
        return limits_of(source, settings.load_s, settings.line_bytes, settings.stdout_bytes)

    def _take_idle(self, source: GraderSource) -> Session | None:
        while True:
            with self._changed:
                found = next((session for session in reversed(self._idle) if session.source == source), None)
                if found is None:
                    return None
                self._idle.remove(found)
            try:
                found.reset()
                found.settle()
            except Ended:
                self._end(found, "tainted")
            else:
                return found

    def _take_living(self) -> Session:
        """An empty sandbox. All that wait may have ended at once, with the zygote."""
        session = self._take_empty()
        for _ in range(self._settings.warm_sandboxes):
            if not session.is_gone():
                break
            self._end(session, "crash")
            session = self._take_empty()
        return session

    def _take_empty(self) -> Session:
        started = monotonic()
        deadline = started + _WAIT_S
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            try:
                while not self._empty:
                    if self._closed:
                        raise InfrastructureError("the service is stopping")
                    if self._failure is not None:
                        raise self._failure
                    if not self._changed.wait(deadline - monotonic()):
                        raise InfrastructureError(
                            f"all {self._settings.most_sandboxes} sandboxes were busy for {_WAIT_S:g} s: try again, or "
                            "raise GRADEBOX_MOST_SANDBOXES"
                        )
                return self._empty.pop()
            finally:
                self.counts.observe("sandbox_wait", monotonic() - started)
                self._waiting -= 1
                self._changed.notify_all()

    def _give_back(self, session: Session) -> None:
        if session.loaded is None or session.loaded.isolation is None:
            self._end(session, "refused")  # it holds no grader
            return
        session.used_at = monotonic()
        if not self._resets_later:
            try:
                session.reset()
            except Ended:
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
        session.end()
        self.counts.add(f"sandbox:end:{why}")
        with self._changed:
            self._alive -= 1
            self._changed.notify_all()

    def _build(self) -> None:
        """The builder's life: starts what is lacking, ends what has had its time."""
        behind_since = inf
        while True:
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
        lacking = len(self._empty) < max(self._settings.warm_sandboxes, self._waiting)
        room = self._alive < self._settings.most_sandboxes or bool(self._waiting and self._idle)
        return lacking and room

    def _outdated(self, pressing: bool) -> list[Session]:
        """Takes off the shelf: what idled too long, what is too many, and what is in the way of somebody waiting."""
        idle, now = self._idle, monotonic()
        surplus = len(idle) - self._settings.loaded_sandboxes if pressing else 0
        in_the_way = 1 if self._waiting and self._alive >= self._settings.most_sandboxes else 0
        number = max(surplus, in_the_way, sum(now - session.used_at > self._settings.idle_s for session in idle))
        outdated = idle[:number] if number > 0 else []
        del idle[: len(outdated)]
        return outdated

    def _start_one(self) -> None:
        try:
            session = Session(self._backend.start())
        except InfrastructureError as error:
            self.counts.add("sandbox:start-failed")
            with self._changed:
                self._alive -= 1
                self._failure = error
                self._changed.notify_all()
                self._changed.wait(_LOOK_S)
                self._failure = None
            return
        self.counts.add("sandbox:start")
        with self._changed:
            if not self._closed:
                self._empty.append(session)
                self._changed.notify_all()
                return
        self._end(session, "closed")


def open_pool(settings: SandboxSettings | None = None, resets_later: bool = False) -> Pool:
    """A pool on the backend that the settings name; `resets_later` as `Pool` takes it.

    Raises:
        IsolationUnavailable: it is not safe here; the message says how to make it so.
    """
    settings = settings or SandboxSettings()
    return Pool(choose(settings), settings, resets_later)
