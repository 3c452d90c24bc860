"""Ends a process when the one that started it exits for any reason, even by SIGKILL."""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def is_supervised() -> bool:
    """Whether `gradebox serve` started this process: its user waits for the process and reads its output."""
    return os.environ.get("GRADEBOX_SUPERVISED", "").isdecimal()


def stop_with_parent() -> None:
    """If `gradebox serve` started this process, requests a SIGTERM from the kernel for when `gradebox serve` exits."""
    if not is_supervised():
        return
    _end_with(int(os.environ["GRADEBOX_SUPERVISED"]), signal.SIGTERM)


def killed_with_parent(command: Sequence[str]) -> list[str]:
    """A command that becomes `command`, and that the kernel kills when the thread that starts it ends.

    A Python process sets this for itself and is then replaced by the program, because a function that `subprocess` runs
    between fork and exec may deadlock in a process with threads.
    """
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def _end_with(parent: int, number: signal.Signals) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:  # the parent exited before prctl, perhaps while this process was starting
        os.kill(os.getpid(), number)


if __name__ == "__main__":  # as started by `killed_with_parent`
    _end_with(int(sys.argv[1]), signal.SIGKILL)
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606  # deliberately without a shell
