"""What one grader said of one thread, or of a group of them.

Outcomes come by the million, so they are msgspec structs: one is read or written in some 0.3 µs.
"""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

ErrorKind = Literal[
    "exception",  # grade() raised
    "bad_return",  # grade() returned no finite number
    "timeout",  # grade() took longer than timeout_s
    "memory",  # grade() wanted more than memory_mb
    "crash",  # the process ended: os._exit, a segmentation fault, a signal
    "bad_input",  # the line is no thread: grade() was not called
    "model",  # grade() asked, and what came of it was an error that it did not catch
    "infrastructure",  # ours: no sandbox could be had, however often it was tried
]


AskFailure = Literal[
    "unknown",  # the project has nothing of this name, or the grader may not ask it
    "unreachable",  # the server could not be reached, or did not answer in time
    "rate_limited",  # the server wanted fewer requests
    "refused",  # the server or the model would not answer
    "cut_off",  # the reply ended at the bound of tokens
    "invalid_reply",  # the reply is not what was asked for
    "over_budget",  # the batch or the project has spent what it may
    "failed",  # the grader that was asked has no score
    "not_repeated",  # a run did not make an ask again that was answered
    "too_much",  # more asks, or larger ones, than a completion may have
]


class OutcomeError(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Why there is no score. `retryable` says that another try may give one: after an `infrastructure` error, after the
    `timeout` of a completion that got too little of a processor, and where a server could not answer.

    Attributes:
        cause: of kind `model`, what became of the ask.
        reply: of kind `model`, the beginning of what the server answered, where it did.
    """

    kind: ErrorKind
    message: str
    retryable: bool = msgspec.field(default_factory=bool)  # told always: defaults of other forms are left out
    cause: AskFailure | None = None
    reply: str | None = None


class Spent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What the asks of one completion cost.

    Attributes:
        asks: how many there were.
        kept: how many of them were answered with a reply that was kept, at no cost.
        input_tokens: of all asks that were not, as the servers counted.
        output_tokens: the same.
        cost: in the currency of the models' prices; 0 where they have none.
    """

    asks: int = 0
    kept: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


def sum_of(parts: Iterable[Spent]) -> Spent:
    """What several came to together."""
    found = [(one.asks, one.kept, one.input_tokens, one.output_tokens, one.cost) for one in parts]
    return Spent(*map(sum, zip(*found, strict=True)))


class CompletionScore(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a grader of groups said of one completion of a group: a finite score; or none and an error; or none, where
    it does not apply.

    Attributes:
        score: a finite number, or None.
        reason: what a `gradebox.Score` carried.
        error: why there is no score.
        values: the values by name that a `gradebox.Score` carried.
        not_applicable: why there is neither a score nor an error.
        details: the details that a `gradebox.Score` carried, or what stood in place of one.
    """

    score: float | None
    reason: str | None = None
    error: OutcomeError | None = None
    values: dict[str, float] | None = None
    not_applicable: str | None = None
    details: dict[str, Any] | None = None


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A finite score; or no score and an error; or no score, where the grader said that it does not apply.

    Attributes:
        index: the position of the thread in its batch or request, from 0.
        grader: which version of which grader: `exact-match@3`.
        score: a finite number, or None where there is an error or the grader does not apply.
        run_ms: how long grade() ran, in milliseconds; waiting is not counted.
        id: the thread's own "id", where it has one.
        reason: what a `gradebox.Score` carried.
        error: why there is no score.
        stdout: what was printed, standard output and error together, cut at the limit.
        values: the values by name that a `gradebox.Score` carried.
        no_completion: whether the thread does not end with a turn of the assistant: `thread.completion()` was None.
        not_applicable: why there is neither a score nor an error: what `gradebox.NotApplicable` said.
        details: the details that a `gradebox.Score` carried, or what was raised in place of one.
        spent: what its asks cost, where it asked.
        scores: of a group, what its grader said of each of its completions, in their order. The outcome's own score is
            their mean where each has one.
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
    not_applicable: str | None = None
    details: dict[str, Any] | None = None
    spent: Spent | None = None
    scores: list[CompletionScore] | None = None
