"""What projects share, such as sandboxes or memory: no project takes all of it, and those that wait take turns."""

import threading
from collections import deque
from collections.abc import Callable
from math import ceil
from time import monotonic
from typing import NamedTuple

from sandbox.errors import Busy

Grant = Callable[[], None]
_LOOK_S = 0.2  # between two looks whether a place is still wanted
_PATIENCE_S = 10.0  # that a project which holds none is passed over because others want fewer places together


class _Asked(NamedTuple):
    grant: Grant
    places: int
    since: float


class Shares:
    """Thread-safe. A project that holds nothing and waits for nothing is forgotten.

    Where n projects hold or want places, each may hold one place in n + 1, rounded up. What is left over is there at
    once for the next project that comes. Several places that are asked for together are given together. A project that
    holds none may have more than its share; where it waits for that for long, what is left is kept for it.
    """

    def __init__(self, most: int, of_what: str, setting: str = "") -> None:
        """`of_what` and `setting` are for messages: what a place is, and what an operator may raise."""
        self.most = most
        self._of_what = of_what
        self._setting = setting
        self._lock = threading.Lock()
        self._held: dict[str, int] = {}
        self._waiting: dict[str, deque[_Asked]] = {}  # the project whose turn is next comes first

    @property
    def held(self) -> int:
        """How many places are taken."""
        with self._lock:
            return sum(self._held.values())

    def ask(self, project: str, grant: Grant, places: int = 1) -> None:
        """Has `grant` called when there are so many places for this project: now, or later by the thread that leaves
        some. It must neither block nor raise.
        """
        with self._lock:
            self._waiting.setdefault(project, deque()).append(_Asked(grant, self._bounded(places), monotonic()))
            self._give()

    def give_up(self, project: str, grant: Grant, places: int = 1) -> None:
        """Takes back what was asked for, whether it was granted or not."""
        with self._lock:
            waiting = self._waiting.get(project, deque())
            asked = next((one for one in waiting if one.grant == grant), None)
            if asked is not None:
                waiting.remove(asked)
                if not waiting:
                    del self._waiting[project]
            else:
                self._take_back(project, self._bounded(places))
            self._give()

    def leave(self, project: str, places: int = 1) -> None:
        """Gives places back."""
        with self._lock:
            self._take_back(project, self._bounded(places))
            self._give()

    def enter(self, project: str, wait_s: float, look: Callable[[], None], places: int = 1) -> None:
        """Waits for places. `look` is called now and then, and ends the waiting by an exception.

        Raises:
            Busy: they were not free in time.
        """
        granted = threading.Event()
        ends = monotonic() + wait_s
        self.ask(project, granted.set, places)
        try:
            while not granted.wait(min(_LOOK_S, max(0.0, ends - monotonic()))):
                look()
                if monotonic() >= ends:
                    raise self.busy(project, wait_s, places)
        except BaseException:
            self.give_up(project, granted.set, places)
            raise

    def busy(self, project: str, waited_s: float, places: int = 1) -> Busy:
        """What to tell a project that waited so long in vain."""
        with self._lock:
            held, share = self._held.get(project, 0), self._share()
        if held and held + self._bounded(places) > share:
            return Busy(
                f"this project has had all {share} {self._of_what} that it may have at once in use for {waited_s:g} s: "
                f"projects share {self.most}. Wait for its other requests to end, or send a batch",
                is_own=True,
            )
        more = f", or have its operator raise {self._setting}" if self._setting else ""
        return Busy(
            f"all {self.most} {self._of_what} of the service were in use for {waited_s:g} s: try again soon{more}"
        )

    def _bounded(self, places: int) -> int:
        """Who asks for more than there is gets all of it: it is alone then, and would else wait for ever."""
        return min(places, self.most)

    def _take_back(self, project: str, places: int) -> None:
        self._held[project] -= places
        if not self._held[project]:
            del self._held[project]

    def _share(self) -> int:
        return ceil(self.most / (len(self._held.keys() | self._waiting.keys()) + 1))

    def _give(self) -> None:
        while (found := self._next()) is not None:
            waiting = self._waiting.pop(found)
            asked = waiting.popleft()
            if waiting:
                self._waiting[found] = waiting  # behind all others
            self._held[found] = self._held.get(found, 0) + asked.places
            asked.grant()

    def _next(self) -> str | None:
        """The project whose turn it is, of those that may have what they wait for."""
        share, free = self._share(), self.most - sum(self._held.values())
        for project, (asked, *_) in self._waiting.items():
            held = self._held.get(project, 0)
            if asked.places <= free and (not held or held + asked.places <= share):
                return project
            if not held and monotonic() - asked.since > _PATIENCE_S:
                return None  # else those that want less would take what is left, again and again
        return None
