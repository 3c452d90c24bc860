"""Ends a process that `gradebox serve` started when `gradebox serve` exits for any reason."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def is_supervised() -> bool:
    """Whether `gradebox serve` started this process: its user waits for the process and reads its output."""
    return os.environ.get("GRADEBOX_SUPERVISED", "").isdecimal()


def stop_with_parent() -> None:
    """If `gradebox serve` started this process, requests a SIGTERM from the kernel for when `gradebox serve` exits."""
    if not is_supervised():
        return
    supervisor = os.environ["GRADEBOX_SUPERVISED"]
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != int(supervisor):  # the supervisor exited before prctl, perhaps while this process was starting
        os.kill(os.getpid(), signal.SIGTERM)
