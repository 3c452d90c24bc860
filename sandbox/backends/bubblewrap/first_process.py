"""The first process of a sandbox, its pid 1."""

import os
import select
import signal
from contextlib import suppress


class FirstProcess:
    """The first process, held by a descriptor so that signals never hit another process.

    When it exits, the kernel kills all other processes of its namespace.

    Attributes:
        pid: as this process sees it.
        pidfd: the descriptor; -1 after `end`.
    """

    def __init__(self, pid: int, pidfd: int) -> None:
        self.pid = pid
        self.pidfd = pidfd

    def kill(self) -> None:
        """Kills it without waiting."""
        if self.pidfd >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def has_ended(self, within_ms: int = 0) -> bool:
        """Whether it has exited, or exits within the time."""
        return self.pidfd < 0 or bool(_end_of(self.pidfd).poll(within_ms))

    def end(self) -> None:
        """Kills it, and waits until it and all others of its namespace have exited. May be called twice."""
        self.kill()
        pidfd, self.pidfd = self.pidfd, -1
        if pidfd >= 0:
            _end_of(pidfd).poll()
            os.close(pidfd)


def _end_of(pidfd: int) -> select.poll:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return poll
