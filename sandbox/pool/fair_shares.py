"""Resources that projects share, such as sandboxes or memory: no project takes everything, and waiting projects take
turns.
"""

import threading
from collections import deque
from collections.abc import Callable
from math import ceil
from time import monotonic
from typing import NamedTuple

from sandbox.errors import Busy

Grant = Callable[[], object]
_LOOK_S = 0.2  # between two calls of `look` while a caller waits
_PATIENCE_S = 10.0  # how long a project that holds no place is passed over for requests of fewer places


class _Asked(NamedTuple):
    grant: Grant
    places: int
    since: float


class Shares:
    """Places that projects share. Thread-safe. A project that holds nothing and waits for nothing is forgotten.

    If n projects hold or request places, each may hold 1/(n + 1) of all places, rounded up. The rest is immediately
    available to the next project. Places requested together are granted together. A project that holds no place may get
    more than its share; if it waits long for that, free places are kept for it.
    """

    def __init__(self, most: int, of_what: str, setting: str = "", instead: str = "") -> None:
        """The texts are used in messages: the name of a place, the setting that an operator may raise, and what a
        project that has its share may do instead.
        """
        self.most = most
        self._of_what = of_what
        self._setting = setting
        self._instead = f", or {instead}" if instead else ""
        self._lock = threading.Lock()
        self._held: dict[str, int] = {}
        self._waiting: dict[str, deque[_Asked]] = {}  # the project whose turn is next is the first key

    @property
    def held(self) -> int:
        """The number of places in use."""
        with self._lock:
            return sum(self._held.values())

    @property
    def is_waited_for(self) -> bool:
        """Whether a project waits for places."""
        with self._lock:
            return bool(self._waiting)

    def ask(self, project: str, grant: Grant, places: int = 1) -> None:
        """Requests places. `grant` is called once this project may have them: immediately, or later by the thread that
        gives places back. It must neither block nor raise.
        """
        with self._lock:
            self._waiting.setdefault(project, deque()).append(_Asked(grant, self._bounded(places), monotonic()))
            self._give()

    def give_up(self, project: str, grant: Grant, places: int = 1) -> None:
        """Withdraws a request, whether or not it was granted."""
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
        """Waits for places. `look` is called at intervals and ends the wait by raising an exception.

        Raises:
            Busy: the places did not become free in time.
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
        """Returns the error for a project that has waited this long and got no place."""
        with self._lock:
            held, share = self._held.get(project, 0), self._share()
        if held and held + self._bounded(places) > share:
            return Busy(
                f"this project has had all {share} {self._of_what} that it may have at once in use for {waited_s:g} s: "
                f"projects share {self.most}. Wait for its other requests to end{self._instead}",
                is_own=True,
            )
        more = f", or have its operator raise {self._setting}" if self._setting else ""
        return Busy(
            f"all {self.most} {self._of_what} of the service were in use for {waited_s:g} s: try again soon{more}"
        )

    def _bounded(self, places: int) -> int:
        """Reduces a request to the total number of places: it is then granted when no other project holds any.
        Otherwise it would wait for ever.
        """
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
                self._waiting[found] = waiting  # at the end of the queue
            self._held[found] = self._held.get(found, 0) + asked.places
            asked.grant()

    def _next(self) -> str | None:
        """The project whose turn it is, among those whose request can be granted."""
        share, free = self._share(), self.most - sum(self._held.values())
        for project, (asked, *_) in self._waiting.items():
            held = self._held.get(project, 0)
            if asked.places <= free and (not held or held + asked.places <= share):
                return project
            if not held and monotonic() - asked.since > _PATIENCE_S:
                return None  # otherwise smaller requests would take the free places again and again
        return None
