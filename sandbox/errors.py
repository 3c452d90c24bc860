"""What the sandbox raises. What a grader does is never raised: it is an outcome, or a failed check.

SandboxError
├── IsolationUnavailable   this machine lacks a layer that safety needs; the message says how to get it
└── InfrastructureError    no sandbox could be had, or one ended for a reason that is not the grader's: try again
"""


class SandboxError(Exception):
    """The root of all that the sandbox raises on purpose."""


class IsolationUnavailable(SandboxError):
    """A layer that safety needs cannot be had here."""


class InfrastructureError(SandboxError):
    """No sandbox could be had, or it ended for a reason that is not the grader's."""
