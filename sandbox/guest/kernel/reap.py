"""How a process ends all that was started below it."""

import os
import signal
from contextlib import suppress


def reap_all(child: int = 0) -> int | None:
    """Kills and reaps until this process has no child left: orphans come here, however often they forked.

    Returns:
        the wait status of `child`, where it was among them.
    """
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                with suppress(ProcessLookupError):
                    os.kill(-1, signal.SIGKILL)
                pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return found
        if pid == child:
            found = status
