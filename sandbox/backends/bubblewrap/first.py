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

    def end(self) -> None:
        """Kills it, and waits until it and all others have gone. May be called twice."""
        self.kill()
        if self.pidfd >= 0:
            gone = select.poll()
            gone.register(self.pidfd, select.POLLIN)
            gone.poll()
            os.close(self.pidfd)
            self.pidfd = -1
