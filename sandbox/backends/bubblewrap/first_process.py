"""The first process of a sandbox, its pid 1."""

import os
import select
import signal
from contextlib import suppress


class First:
    """Held by a descriptor, so that nobody else is hit. When it ends, the kernel ends all that lives in its namespace.

    Attributes:
        pid: as this process sees it.
        pidfd: the descriptor; -1 once it has ended.
    """

    def __init__(self, pid: int, pidfd: int) -> None:
        self.pid = pid
        self.pidfd = pidfd

    def kill(self) -> None:
        """Kills it, and does not wait."""
        if self.pidfd >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def has_ended(self, within_ms: int = 0) -> bool:
        """Whether it is no more, or comes to that within the time."""
        return self.pidfd < 0 or bool(_end_of(self.pidfd).poll(within_ms))

    def end(self) -> None:
        """Kills it, and waits until it and all others have gone. May be called twice."""
        self.kill()
        pidfd, self.pidfd = self.pidfd, -1
        if pidfd >= 0:
            _end_of(pidfd).poll()
            os.close(pidfd)


def _end_of(pidfd: int) -> select.poll:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return poll
