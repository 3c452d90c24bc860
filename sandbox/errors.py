"""Exceptions of the sandbox. The behaviour of a grader is never raised: it is an outcome, or a failed check.

SandboxError
├── IsolationUnavailable   this machine lacks a layer that safety needs; the message explains how to get it
├── InfrastructureError    no sandbox is available, or one ended for a reason other than the grader: try again
│   ├── Busy               everything that may be used at once was in use for too long
│   ├── Unusable           the build of an environment is lost or damaged, or is for another Python
│   └── StillRunning       a killed sandbox has not exited yet
└── Stopped                the caller cancelled the work
"""

from runtime.errors import CannotStart


class SandboxError(Exception):
    """The base of all exceptions that the sandbox raises deliberately."""


class IsolationUnavailable(SandboxError, CannotStart):
    """A layer that safety needs is unavailable here."""

    exit_code = 3
    what = "no sandbox is safe here"


class InfrastructureError(SandboxError):
    """No sandbox is available, or it ended for a reason other than the grader."""


class Busy(InfrastructureError):
    """Everything that may be used at once was in use for too long. `is_own`: the project itself used its share."""

    def __init__(self, message: str, is_own: bool = False) -> None:
        super().__init__(message)
        self.is_own = is_own


class Unusable(InfrastructureError):
    """The build of an environment is lost, damaged or for another Python. The message says what its user can do."""


class StillRunning(InfrastructureError):
    """A sandbox was killed and has not exited yet, because a process of it hangs in the kernel."""


class Stopped(SandboxError):
    """The caller's stop function returned True. The sandbox has ended in the middle of its work."""
