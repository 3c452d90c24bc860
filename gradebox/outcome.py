"""What one grader said of one thread.

Outcomes come by the million, so they are msgspec structs: one is read or written in some 0.3 µs.
"""

from typing import Literal

import msgspec

ErrorKind = Literal[
    "exception",  # grade() raised
    "bad_return",  # grade() returned no finite number
    "timeout",  # grade() took longer than timeout_s
    "memory",  # grade() wanted more than memory_mb
    "crash",  # the process ended: os._exit, a segmentation fault, a signal
    "bad_input",  # the line is no thread: grade() was not called
    "infrastructure",  # ours: no sandbox could be had, however often it was tried
]


class OutcomeError(msgspec.Struct, frozen=True, gc=False):
    """Why there is no score. `retryable` says that another try may give one: after an `infrastructure` error, and after
    the `timeout` of a completion that got too little of a processor.
    """

    kind: ErrorKind
    message: str
    retryable: bool = False


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A finite score, or no score and an error: never both, never neither.

    Attributes:
        index: the position of the thread in its batch or request, from 0.
        grader: which version of which grader: `exact-match@3`.
        score: a finite number, or None where there is an error.
        run_ms: how long grade() ran, in milliseconds; waiting is not counted.
        id: the thread's own "id", where it has one.
        reason: what a `gradebox.Score` carried.
        error: why there is no score.
        stdout: what was printed, standard output and error together, cut at the limit.
        values: the values by name that a `gradebox.Score` carried.
        no_completion: whether the thread does not end with a turn of the assistant: `thread.completion()` was None.
    """

    index: int
    grader: str
    score: float | None
    run_ms: float
    id: str | int | None = None
    reason: str | None = None
    error: OutcomeError | None = None
    stdout: str | None = None
    values: dict[str, float] | None = None
    no_completion: bool = False
