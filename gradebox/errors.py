"""What the client raises.

GradeboxError
├── ConnectionFailed            the service could not be reached, or did not answer
├── CannotServe                 a service cannot be started, or go on, on this machine
├── NotOurs                     another user of this machine listens where the service should
├── SourceError (ValueError)    the function cannot be uploaded: a lambda, a closure, a method …
├── ValidationError (ValueError)  a check failed: nothing was saved
├── WaitTimeout (TimeoutError)  a batch did not end in the time that wait() was given; it goes on
├── BuildTimeout (TimeoutError) an environment was not built in the time that was given; its build goes on
├── EnvironmentFailed           an environment could not be built; the message says why
├── BatchFailed                 a batch ended without all of its outcomes: cancelled, or failed
├── ScoreMissing                a completion has no score, and who asks must be given a number
└── ApiError                    any other refusal; has status, type, detail and request_id
    ├── NotFound                404: no such project, grader, version or batch, or not yours
    ├── NotAllowed              401, 403: no key, a wrong one, or one that may not do this
    ├── Conflict                409: the key is taken, or the grader is locked
    ├── VersionChanged          412: the grader has another version than the one that was meant
    └── TooLarge                413: over a limit, which the message names

What it warns of is a GraderWarning (UserWarning).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradebox.outcome import Outcome
    from gradebox.schemas import Batch, Environment, Problem, Report


class GradeboxError(Exception):
    """The root of all that gradebox raises on purpose."""


class ConnectionFailed(GradeboxError):
    """The service could not be reached, or did not answer in time."""


class CannotServe(GradeboxError):
    """A service cannot be started, or go on, on this machine; the message says what is missing and how to get it."""


class NotOurs(GradeboxError):
    """Another user of this machine listens where the service should: nothing is sent there, least of all a key."""


class SourceError(GradeboxError, ValueError):
    """The function cannot be made into a source that stands alone."""


class GraderWarning(UserWarning):
    """The checks passed a grader, and found what may make its scores other than its author expects."""


class ValidationError(GradeboxError, ValueError):
    """A check failed. `report` has all five; nothing was saved."""

    def __init__(self, report: Report) -> None:
        self.report = report
        failed = report.failed
        message = "the grader is not valid"
        if failed is not None:
            where = f" (line {failed.line})" if failed.line else ""
            message = f"check {failed.name!r} failed{where}: {failed.message}"
            if failed.traceback:
                message = f"{message}\n{failed.traceback}"
        super().__init__(message)


class WaitTimeout(GradeboxError, TimeoutError):
    """A batch did not end in the time that `wait` was given. It goes on; `batch` says how far it came."""

    def __init__(self, batch: Batch, timeout: float) -> None:
        self.batch = batch
        super().__init__(
            f"batch {batch.id} did not end within {timeout:g} s: {batch.done} of {batch.total} outcomes so far. "
            "It goes on: wait again, or cancel it"
        )


class BatchFailed(GradeboxError):
    """A batch ended without all of its outcomes. `batch` says how far it came."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        super().__init__(f"batch {batch.id} was {batch.state} with {batch.done} of {batch.total} outcomes")


class BuildTimeout(GradeboxError, TimeoutError):
    """An environment was not built in the time that was given. Its build goes on; `environment` is how it stood."""

    def __init__(self, environment: Environment, timeout: float) -> None:
        self.environment = environment
        super().__init__(
            f"environment {environment.key}@{environment.build} was not built within {timeout:g} s. "
            "It goes on: ask again with environments.wait"
        )


class EnvironmentFailed(GradeboxError):
    """An environment could not be built. `environment` is what the service says of it."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        newest = environment.newest
        reason = newest.reason if newest else None
        super().__init__(f"environment {environment.key}@{environment.build} could not be built: {reason}")


class ScoreMissing(GradeboxError):
    """A completion has no score, and a framework that asks must be given a number. `outcome` says why there is none."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        error = outcome.error
        if outcome.not_applicable is not None:
            why = f"it does not apply: {outcome.not_applicable or 'no reason was given'}"
        else:
            why = f"{error.kind}: {error.message}" if error else "no reason was given"
        super().__init__(f"{outcome.grader} gave a completion no score, which is not a score of 0.0: {why}")


class ApiError(GradeboxError):
    """The service refused."""

    def __init__(self, problem: Problem) -> None:
        self.status = problem.status
        self.type = problem.type
        self.detail = problem.detail
        self.request_id = problem.request_id
        super().__init__(f"{problem.detail} [{problem.status} {problem.title}, request {problem.request_id}]")


class NotFound(ApiError):
    """No such project, grader, version or batch, or not one that the key covers."""


class NotAllowed(ApiError):
    """No API key, a wrong one, or one that may not do this."""


class Conflict(ApiError):
    """The key is taken, or the grader is locked."""


class VersionChanged(ApiError):
    """Somebody gave the grader another version than the one that was to be followed. Nothing was saved."""


class TooLarge(ApiError):
    """Over a limit, which the message names."""
