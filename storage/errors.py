"""The errors that storage raises on purpose. If Redis or the spool is unavailable, redis-py's errors or OSError are
raised.

StorageError
├── NotFound         there is no such thing, or it was deleted
├── Conflict         the key is taken, or the state does not allow this
│   ├── KeyTaken     another grader, model or endpoint has the key
│   ├── Locked       the grader is locked
│   ├── NotRunnable  the grader is of kind `custom`, which is not run, or exceeds a limit of its project
│   └── KeyNeeded    the API key or headers of a model or endpoint were given for another URL
├── VersionChanged   the grader's newest version is not the expected one
├── KeyReused        an Idempotency-Key was used with another request
├── Refused          what is given cannot be stored, such as an upload that is over a limit or has no line
│   ├── TooLarge
│   └── QueueFull    the project has too much waiting; the batch will fit later
├── QuotaExceeded    the project, or the service, has reached a quota
├── SecretKeyError   (in storage.models.secret_key) the key file does not match the encrypted data
├── PayloadLost      the spool no longer has the payload of a batch
├── OutcomesLost     the spool no longer has outcomes of a batch, or only a part of them
├── SpoolUnusable    the spool cannot be written, and waiting does not help
└── UnknownFormat    the data was written by a newer gradebox

CutOff is an OSError: another look, or another process, may find the file whole. AttemptWritten is one too: another
attempt has another file.
"""

from collections import Counter
from collections.abc import Collection
from difflib import get_close_matches
from heapq import nlargest

from runtime.errors import CannotStart

MOST_COMPARED = 200  # keys, whose letters are compared with those of one that is not found
_NEAREST = 3  # of them, which are compared as a whole: two long keys may take 6 ms


class StorageError(Exception):
    """The base class of all errors that storage raises on purpose."""


class NotFound(StorageError):
    """There is no such project, grader, version, batch or API key."""


class Conflict(StorageError):
    """The key is taken, or the state of the object does not allow this."""


class KeyTaken(Conflict):
    """Another grader, model or endpoint has the key."""


class Locked(Conflict):
    """The grader is locked against change."""


class NotRunnable(Conflict):
    """The grader is of kind `custom`, whose scores are recorded, or exceeds a limit of its project: it is not run."""


class KeyNeeded(Conflict):
    """The API key or headers of a model or endpoint were given for another URL, and have to be given again."""


class VersionChanged(StorageError):
    """The newest version of the grader is not the one that the request expected."""


class KeyReused(StorageError):
    """An Idempotency-Key was used with another request before."""


class Refused(StorageError):
    """What is given cannot be stored, such as an upload that cannot become a batch."""


class TooLarge(Refused):
    """An upload over a limit, which the message names."""


class QueueFull(Refused):
    """A project has as much waiting as it may. Nothing was stored; the same request can be sent again later."""


class QuotaExceeded(StorageError):
    """A quota is reached. Nothing was changed; something has to be deleted first."""


class OutcomesLost(StorageError):
    """The spool no longer has outcomes that count, or only a part of them."""


class PayloadLost(StorageError):
    """The spool lacks a payload, or a part of one, that it had."""


class CutOff(OSError):
    """A file in the spool is shorter than it was, or changed."""


class AttemptWritten(FileExistsError):
    """The spool has other outcomes of this attempt: Redis has come back with older data, and lent its number again."""


class SpoolUnusable(StorageError, CannotStart):
    """The spool cannot be written, and waiting does not help."""

    what = "the spool cannot be written"


class UnknownFormat(StorageError, CannotStart):
    """The data was written by a newer gradebox."""

    exit_code = 4
    what = "the data cannot be used"


def no_project(key: str) -> NotFound:
    """The error for a project that does not exist. It is identical for a project that the caller may not see."""
    return NotFound(
        f"there is no project {key!r}, or this API key does not cover it: name one of `gradebox projects list` by "
        "--project, project= or GRADEBOX_PROJECT"
    )


def no_key(noun: str, key: str, project: str, keys: Collection[str]) -> NotFound:
    """The error for a key that no grader, model or other thing of the project has. It names a similar one of `keys`."""
    found = get_close_matches(key, _nearest(key, keys), 1) if len(keys) <= MOST_COMPARED else ()
    advice = f"did you mean {found[0]!r}?" if found else f"list the {noun}s to see which there are"
    return NotFound(f"there is no {noun} {key!r} in project {project!r}: {advice}")


def _nearest(key: str, keys: Collection[str]) -> list[str]:
    """The few keys that have the most letters in common with this one."""
    letters = Counter(key)

    def share(other: str) -> float:
        return (letters & Counter(other)).total() / (len(key) + len(other) or 1)

    return nlargest(_NEAREST, keys, share)
