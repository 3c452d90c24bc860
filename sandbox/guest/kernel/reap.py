"""Ends all descendants of a process."""

import os
import signal
from contextlib import suppress


def reap_all(child: int = 0) -> int | None:
    """Kills and reaps processes until this one has no child left.

    Orphaned descendants become children of this process, however often they forked.

    Returns:
        the wait status of `child`, or None if it was not among them.
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
