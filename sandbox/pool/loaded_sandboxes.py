"""Loaded sandboxes that are not in use."""

from collections.abc import Callable, Iterator, Sequence
from time import monotonic

from sandbox.grader_source import GraderSource
from sandbox.grading.session import Session


class LoadedSandboxes:
    """The idle sandboxes, with the most recently used one at the end. The caller holds a lock."""

    def __init__(self) -> None:
        self._sessions: list[Session] = []

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter([*self._sessions])

    def add(self, session: Session) -> None:
        """Adds a sandbox."""
        self._sessions.append(session)

    def take(self, source: GraderSource) -> Session | None:
        """Removes and returns the most recently used sandbox with this grader; None if there is none."""
        found = next((session for session in reversed(self._sessions) if session.source == source), None)
        if found is not None:
            self._sessions.remove(found)
        return found

    def take_back(self, session: Session) -> bool:
        """Removes this sandbox; False if it is in use again."""
        is_here = session in self._sessions
        if is_here:
            self._sessions.remove(session)
        return is_here

    def take_oldest(self, least: int, idle_s: float) -> list[Session]:
        """Removes and returns those idle for more than `idle_s` seconds, and at least the `least` oldest."""
        now = monotonic()
        number = max(least, sum(now - session.used_at > idle_s for session in self._sessions))
        oldest = self._sessions[:number]
        del self._sessions[:number]
        return oldest


def largest(sessions: Sequence[Session], room: Callable[[], int]) -> Iterator[Session]:
    """The sessions to be ended, the largest first, until the others take no more than `room` bytes.

    The memory that a session holds is measured instead of its limit: most graders hold a tenth of their limit.
    """
    sizes = {session: session.memory_bytes() for session in sessions}
    surplus = sum(sizes.values()) - room()
    for session in sorted(sessions, key=sizes.__getitem__, reverse=True):
        if surplus <= 0:
            return
        surplus -= sizes[session]
        yield session
