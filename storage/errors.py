"""What storage raises on purpose. Redis and the spool being away are the errors of redis-py and OSError.

StorageError
├── NotFound         there is no such thing, or it is gone
├── Conflict         the key is taken
│   ├── Locked       the grader is locked
│   ├── NotRunnable  the grader is of a kind that is kept and not run
│   └── KeyNeeded    the API key of a model or endpoint was given for another URL
├── VersionChanged   the grader has another version than the one that is to be followed
├── KeyReused        an Idempotency-Key came with another request
├── Refused          an upload that is over a limit or has no line in it
│   ├── TooLarge
│   └── QueueFull    the project has too much waiting; it will fit later
├── QuotaExceeded    the project, or the service, keeps as much of something as it may
├── SecretKeyError   (in storage.secret_key) the key file does not fit what was encrypted
├── PayloadLost      the spool no longer has what a batch is to score
├── SpoolUnusable    nothing can be written to the spool, and waiting does not help
└── UnknownFormat    the data was written by a newer gradebox
"""

from runtime.errors import CannotStart


class StorageError(Exception):
    """The root of all that storage raises on purpose."""


class NotFound(StorageError):
    """There is no such project, grader, version, batch or API key."""


class Conflict(StorageError):
    """The key is taken, or the thing is not in a state that allows this."""


class Locked(Conflict):
    """The grader is locked against change."""


class NotRunnable(Conflict):
    """The grader is of a kind that is kept and not run."""


class KeyNeeded(Conflict):
    """The API key of a model or endpoint was given for another URL: it is to be given again."""


class VersionChanged(StorageError):
    """Another version was made since the one that a new version is to follow."""


class KeyReused(StorageError):
    """An Idempotency-Key came with another request before."""


class Refused(StorageError):
    """An upload that can be no batch."""


class TooLarge(Refused):
    """An upload over a limit, which the message names."""


class QueueFull(Refused):
    """A project has as much waiting as it may. Nothing was kept; the same request can be sent again later."""


class QuotaExceeded(StorageError):
    """As much is kept as may be. Nothing was changed; something has to be deleted first."""


class PayloadLost(StorageError):
    """The spool does not have a payload that it had, or not all of it."""


class SpoolUnusable(StorageError, CannotStart):
    """Nothing can be written to the spool, and waiting does not help."""

    exit_code = 5
    what = "the spool cannot be written"


class UnknownFormat(StorageError, CannotStart):
    """The data was written by a newer gradebox."""

    exit_code = 4
    what = "the data cannot be used"


def no_project(key: str) -> NotFound:
    """For a project that is not there, and word for word for one that the caller may not see."""
    return NotFound(f"there is no project {key!r}, or this API key does not cover it: check the project's key")
