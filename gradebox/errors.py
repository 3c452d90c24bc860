"""Exceptions that the client raises.

GradeboxError
├── ConnectionFailed            the service could not be reached, or did not answer
├── ClientClosed                the client was closed before this call
├── CannotServe                 a service cannot start, or continue, on this machine
├── NotOurs                     another user of this machine listens on the service's port
├── SourceError (ValueError)    the function cannot be uploaded: a lambda, a closure, a method …
├── ValidationError (ValueError)  a check failed: nothing was saved
├── WaitTimeout (TimeoutError)  a batch did not end within the timeout of wait(); it keeps running
├── BuildTimeout (TimeoutError) an environment was not built within the timeout; its build continues
├── EnvironmentFailed           an environment could not be built; the message explains why
├── BatchFailed                 a batch ended without all of its outcomes: cancelled, or failed
├── ScoreMissing                a completion has no score, and the caller requires a number
└── ApiError                    any other error response; has status, type, detail and request_id
    ├── NotFound                404: the project, grader, version or batch does not exist or is not visible to you
    ├── NotAllowed              401, 403: the API key is missing or wrong, or lacks the permission
    ├── Conflict                409: the key is taken, or the grader is locked
    ├── OutcomesLost            410: the service has lost outcomes of the batch: score its threads again
    ├── VersionChanged          412: the grader's version is not the expected one
    └── TooLarge                413: over a limit, which the message names

Warnings are of class GraderWarning (UserWarning).
"""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradebox.outcome import Outcome
    from gradebox.schemas import Batch, Environment, Problem, Report


class GradeboxError(Exception):
    """The base class of all exceptions that gradebox raises deliberately. They can be pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        # By default, the message would be passed to `__init__`, which takes something else in several classes. Then a
        # pool of processes ends, or waits for ever.
        return copyreg.__newobj__, (type(self),), vars(self) | {"args": self.args}  # type: ignore[attr-defined]


class ConnectionFailed(GradeboxError):
    """The service could not be reached, or did not answer in time."""


class ClientClosed(GradeboxError):
    """The client was closed before this call."""


class CannotServe(GradeboxError):
    """A service cannot start, or continue, on this machine; the message names what is missing and how to get it."""


class NotOurs(GradeboxError):
    """Another user of this machine listens on the service's port: nothing is sent there, in particular no API key."""


class SourceError(GradeboxError, ValueError):
    """The function cannot be extracted into a source that runs without its module."""


class GraderWarning(UserWarning):
    """A grader passed the checks, but they found something that may make its scores differ from what is expected. Or
    its scores cannot be compared with labels.
    """


class ValidationError(GradeboxError, ValueError):
    """A check failed. `report` holds the checks that ran, and their warnings; nothing was saved."""

    def __init__(self, report: Report) -> None:
        self.report = report
        super().__init__(report.with_warnings(report.warnings_on_scores))


class WaitTimeout(GradeboxError, TimeoutError):
    """A batch did not end within the timeout of `wait`. It keeps running; `batch` is its state at that time."""

    def __init__(self, batch: Batch, timeout: float) -> None:
        self.batch = batch
        super().__init__(
            f"batch {batch.id} did not end within {timeout:g} s: {batch.done} of {batch.total} outcomes so far. "
            "It goes on: wait again, or cancel it"
        )


class BatchFailed(GradeboxError):
    """A batch ended without all of its outcomes. `batch` is its final state."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        state = "was cancelled" if batch.state == "cancelled" else "failed"
        super().__init__(
            f"batch {batch.id} {state} with {batch.done} of {batch.total} outcomes. They can be read: "
            f"batch.outcomes(), in the shell `gradebox batches outcomes {batch.id}`"
        )


class BuildTimeout(GradeboxError, TimeoutError):
    """An environment was not built within the timeout. Its build continues; `environment` is its state at that time."""

    def __init__(self, environment: Environment, timeout: float) -> None:
        self.environment = environment
        super().__init__(
            f"environment {environment.key}@{environment.build} was not built within {timeout:g} s. "
            "It goes on: ask again with environments.wait"
        )


class EnvironmentFailed(GradeboxError):
    """An environment could not be built. `environment` is the service's record of it."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        newest = environment.newest
        reason = newest.reason if newest else None
        super().__init__(f"environment {environment.key}@{environment.build} could not be built: {reason}")


class ScoreMissing(GradeboxError):
    """A completion has no score, and the calling framework requires a number. `outcome` holds the reason. `row` is the
    position of the completion among those of the call, if there are several.
    """

    def __init__(self, outcome: Outcome, row: int | None = None) -> None:
        self.outcome = outcome
        self.row = row
        error = outcome.error
        if outcome.not_applicable is not None:
            why = f"it does not apply: {outcome.not_applicable or 'no reason was given'}"
        else:
            why = f"{error.kind}: {error.message}" if error else "no reason was given"
        which = "a completion" if row is None else f"completion {row} (from 0)"
        which += "" if outcome.id is None else f", id {outcome.id!r:.80},"
        super().__init__(f"{outcome.grader} gave {which} no score, which is not a score of 0.0: {why}")


class ApiError(GradeboxError):
    """The service responded with an error."""

    def __init__(self, problem: Problem) -> None:
        self.status = problem.status
        self.type = problem.type
        self.detail = problem.detail
        self.request_id = problem.request_id
        super().__init__(f"{problem.detail} [{problem.status} {problem.title}, request {problem.request_id}]")


class NotFound(ApiError):
    """The project, grader, version or batch does not exist, or the API key does not cover it."""


class NotAllowed(ApiError):
    """The API key is missing or wrong, or lacks the permission."""


class Conflict(ApiError):
    """The key is taken, or the grader is locked."""


class OutcomesLost(ApiError):
    """The service no longer has some outcomes of a batch. The message names their threads, which are to be scored again
    in a new batch. Outcomes of other threads can be read.
    """


class VersionChanged(ApiError):
    """The grader's version is not the expected one: it was changed in the meantime. Nothing was saved."""


class TooLarge(ApiError):
    """Over a limit, which the message names. If it was a call to score, `most_threads` and `most_bytes` are the limits
    of one call; otherwise they are None.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.most_threads = problem.most_threads
        self.most_bytes = problem.most_bytes
