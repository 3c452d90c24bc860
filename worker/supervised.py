"""A process of `gradebox serve` must not outlive it, however that ends."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def stop_with_parent() -> None:
    """Asks the kernel for a SIGTERM when the parent dies, where GRADEBOX_SUPERVISED says that it supervises."""
    if os.environ.get("GRADEBOX_SUPERVISED") != "1":
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it died before the kernel was asked
        os.kill(os.getpid(), signal.SIGTERM)
