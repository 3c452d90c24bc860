"""A process of `gradebox serve` must not outlive it, however that ends."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def is_supervised() -> bool:
    """Whether this is a process of `gradebox serve`: its user waits for it, and reads what it says."""
    return os.environ.get("GRADEBOX_SUPERVISED", "").isdecimal()


def stop_with_parent() -> None:
    """Asks the kernel for a SIGTERM when the parent dies, where it is the process that GRADEBOX_SUPERVISED names."""
    if not is_supervised():
        return
    supervisor = os.environ["GRADEBOX_SUPERVISED"]
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != int(supervisor):  # it died before the kernel was asked, maybe while this process was starting
        os.kill(os.getpid(), signal.SIGTERM)
