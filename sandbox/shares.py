"""Places that projects share, such as sandboxes: no project takes all of them, and those that wait take turns."""

import threading
from collections import deque
from collections.abc import Callable
from math import ceil
from time import monotonic

from sandbox.errors import Busy

Grant = Callable[[], None]
_LOOK_S = 0.2  # between two looks whether a place is still wanted


class Shares:
    """Thread-safe. A project that holds no place and waits for none is forgotten.

    Where n projects hold or want places, each may hold one place in n + 1, rounded up. What is left over is there at
    once for the next project that comes.
    """

    def __init__(self, most: int, of_what: str, setting: str = "") -> None:
        """`of_what` and `setting` are for messages: what a place is, and what an operator may raise."""
        self.most = most
        self._of_what = of_what
        self._setting = setting
        self._lock = threading.Lock()
        self._held: dict[str, int] = {}
        self._waiting: dict[str, deque[Grant]] = {}  # the project whose turn is next comes first

    def ask(self, project: str, grant: Grant) -> None:
        """Has `grant` called when there is a place for this project: now, or later by the thread that leaves one.

        It must neither block nor raise.
        """
        with self._lock:
            self._waiting.setdefault(project, deque()).append(grant)
            self._give()

    def give_up(self, project: str, grant: Grant) -> None:
        """Takes back what was asked for, whether it was granted or not."""
        with self._lock:
            waiting = self._waiting.get(project, deque())
            if grant in waiting:
                waiting.remove(grant)
                if not waiting:
                    del self._waiting[project]
            else:
                self._take_back(project)
            self._give()

    def leave(self, project: str) -> None:
        """Gives a place back."""
        with self._lock:
            self._take_back(project)
            self._give()

    def enter(self, project: str, wait_s: float, look: Callable[[], None]) -> None:
        """Waits for a place. `look` is called now and then, and ends the waiting by an exception.

        Raises:
            Busy: there was none in time.
        """
        granted = threading.Event()
        ends = monotonic() + wait_s
        self.ask(project, granted.set)
        try:
            while not granted.wait(min(_LOOK_S, max(0.0, ends - monotonic()))):
                look()
                if monotonic() >= ends:
                    raise self.busy(project, wait_s)
        except BaseException:
            self.give_up(project, granted.set)
            raise

    def busy(self, project: str, waited_s: float) -> Busy:
        """What to tell a project that waited so long in vain."""
        with self._lock:
            held, share = self._held.get(project, 0), self._share()
        if held >= share:
            return Busy(
                f"this project has had all {share} {self._of_what} that it may have at once in use for {waited_s:g} s: "
                f"projects share {self.most}. Wait for its other requests to end, or send a batch",
                is_own=True,
            )
        more = f", or have its operator raise {self._setting}" if self._setting else ""
        return Busy(
            f"all {self.most} {self._of_what} of the service were in use for {waited_s:g} s: try again soon{more}"
        )

    def _take_back(self, project: str) -> None:
        self._held[project] -= 1
        if not self._held[project]:
            del self._held[project]

    def _share(self) -> int:
        return ceil(self.most / (len(self._held.keys() | self._waiting.keys()) + 1))

    def _give(self) -> None:
        while sum(self._held.values()) < self.most:
            share = self._share()
            found = next((one for one in self._waiting if self._held.get(one, 0) < share), None)
            if found is None:
                return
            waiting = self._waiting.pop(found)
            grant = waiting.popleft()
            if waiting:
                self._waiting[found] = waiting  # behind all others
            self._held[found] = self._held.get(found, 0) + 1
            grant()
