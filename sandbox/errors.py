"""What the sandbox raises. What a grader does is never raised: it is an outcome, or a failed check.

SandboxError
├── IsolationUnavailable   this machine lacks a layer that safety needs; the message says how to get it
├── InfrastructureError    no sandbox could be had, or one ended for a reason that is not the grader's: try again
│   └── Busy               all that may be had at once was in use for too long
└── Stopped                the caller wants no more of what it asked for
"""

from runtime.errors import CannotStart


class SandboxError(Exception):
    """The root of all that the sandbox raises on purpose."""


class IsolationUnavailable(SandboxError, CannotStart):
    """A layer that safety needs cannot be had here."""

    exit_code = 3
    what = "no sandbox is safe here"


class InfrastructureError(SandboxError):
    """No sandbox could be had, or it ended for a reason that is not the grader's."""


class Busy(InfrastructureError):
    """All that may be had at once was in use for too long. `is_own` says that the project itself used it."""

    def __init__(self, message: str, is_own: bool = False) -> None:
        super().__init__(message)
        self.is_own = is_own


class Stopped(SandboxError):
    """The caller's own function said that it wants no more. The sandbox has ended in the middle of its work."""
