"""Loaded sandboxes that nobody uses at present."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from time import monotonic

from sandbox.grader_source import GraderSource
from sandbox.session import Ended, Session


class IdleSandboxes:
    """They, the one that was used last at the end. Its user has a lock around it."""

    def __init__(self) -> None:
        self._sessions: list[Session] = []

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter([*self._sessions])

    def add(self, session: Session) -> None:
        """Takes one more."""
        self._sessions.append(session)

    def take(self, source: GraderSource) -> Session | None:
        """The one with this grader that was used last, if there is one."""
        found = next((session for session in reversed(self._sessions) if session.source == source), None)
        if found is not None:
            self._sessions.remove(found)
        return found

    def take_back(self, session: Session) -> bool:
        """Takes this one out; False where it is in use again."""
        is_here = session in self._sessions
        if is_here:
            self._sessions.remove(session)
        return is_here

    def take_oldest(self, least: int, idle_s: float) -> list[Session]:
        """Takes out those that were not used for so many seconds, and at least so many."""
        now = monotonic()
        number = max(least, sum(now - session.used_at > idle_s for session in self._sessions))
        oldest = self._sessions[:number]
        del self._sessions[:number]
        return oldest

    def reset(self) -> None:
        """Resets all of them. It waits for nothing."""
        for session in self._sessions:
            with suppress(Ended, OSError):  # whoever takes it gets that error too
                session.reset()


def largest(sessions: Sequence[Session], room: Callable[[], int]) -> Iterator[Session]:
    """Those to be ended, the largest first, until the others take no more than `room` bytes.

    What one holds is measured, not what it may: most graders hold a tenth of that.
    """
    sizes = {session: session.memory_bytes() for session in sessions}
    surplus = sum(sizes.values()) - room()
    for session in sorted(sessions, key=sizes.__getitem__, reverse=True):
        if surplus <= 0:
            return
        surplus -= sizes[session]
        yield session
