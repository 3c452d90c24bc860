"""The outcome of one grader for one thread or one group of threads.

Batches have millions of outcomes, so they are msgspec structs: reading or writing one takes about 0.3 µs.
"""

from collections.abc import Iterable, Sequence
from math import fsum, inf
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec

ErrorKind = Literal[
    "exception",  # grade() raised
    "bad_return",  # grade() did not return a finite number
    "timeout",  # grade() took longer than timeout_s
    "memory",  # grade() needed more than memory_mb
    "crash",  # the process ended: os._exit, a segmentation fault, a signal
    "bad_input",  # the line is not a thread: grade() was not called
    "model",  # an ask of grade() failed, and grade() did not catch the error
    "infrastructure",  # the service's fault: no sandbox was available after all retries
]


AskFailure = Literal[
    "unknown",  # the project has no such name, or the grader may not ask it
    "unreachable",  # the server could not be reached, or did not answer in time
    "rate_limited",  # the server limited the rate of requests
    "refused",  # the server or the model refused to answer
    "cut_off",  # the reply reached the token limit
    "invalid_reply",  # the reply does not have the requested form
    "over_budget",  # the budget of the batch or the project is used up
    "failed",  # the grader that was asked has no score
    "not_repeated",  # a later run did not repeat an ask that was already answered
    "too_much",  # a completion exceeded the limit on the number or the size of its asks
]


class OutcomeError(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True, gc=False):
    """Why there is no score. `retryable` is true if another try may give one: after an `infrastructure` error, after
    the `timeout` of a completion that got too little CPU time, and if a server could not answer.

    Attributes:
        cause: for kind `model`, how the ask failed.
        reply: for kind `model`, the beginning of the server's answer, if there was one.
    """

    kind: ErrorKind
    message: str
    retryable: bool = msgspec.field(default_factory=bool)  # always encoded: omit_defaults omits only plain defaults
    cause: AskFailure | None = None
    reply: str | None = None


class Spent(msgspec.Struct, frozen=True, repr_omit_defaults=True, gc=False):
    """The cost of the asks of one completion.

    Attributes:
        asks: number of asks that were sent, or answered with a stored reply.
        kept: number of these asks that were answered with a stored reply, at no cost.
        input_tokens: of the asks not answered with a stored reply, as counted by the servers.
        output_tokens: the same for output.
        usd: the cost by the models' prices; 0 if they have none.
    """

    asks: int = 0
    kept: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0


def sum_of(parts: Iterable[Spent]) -> Spent:
    """Return the sum of several costs."""
    found = [*parts]
    return Spent(
        sum([one.asks for one in found]),
        sum([one.kept for one in found]),
        sum([one.input_tokens for one in found]),
        sum([one.output_tokens for one in found]),
        sum([one.usd for one in found]),
    )


def weighted_sum(parts: Iterable[tuple[float, float | None]]) -> float | None:
    """Return the sum of scores, each multiplied by the weight before it. It is rounded once, so the order does not
    matter. None if a score is missing; infinite if the sum is too large.
    """
    weighted = [None if score is None else weight * score for weight, score in parts]
    present = [one for one in weighted if one is not None]
    if len(present) < len(weighted):
        return None
    try:
        return fsum(present)
    except (OverflowError, ValueError):  # the sum overflows, or adds both infinities
        return inf


Details: TypeAlias = dict[str, Any] | list[dict[str, Any] | None]
"""The details of a thread; for a group, those of each completion."""


class Detailed(Protocol):
    """An outcome, the result of a completion, or the part of one that was read from its line."""

    @property
    def details(self) -> Details | None:
        """The details, perhaps as JSON: see `encoded`."""


_encode = msgspec.json.Encoder().encode


def encoded(details: dict[str, Any]) -> dict[str, Any]:
    """Return details as the service keeps them in an outcome: as JSON, to be read by `details_of`. As objects, those of
    a thousand outcomes could take a third of a gigabyte.
    """
    return msgspec.Raw(_encode(details))  # type: ignore[return-value]  # a call of `cast` takes a fifth of the time


def details_of(outcome: Detailed) -> dict[str, Any] | None:
    """Return the details of an outcome or of a completion, also if they are kept as JSON. None for the outcome of a
    group whose completions have theirs: see `completion_details_of`.
    """
    kept = _decoded(outcome.details)
    return None if isinstance(kept, list) else kept


def completion_details_of(outcome: Detailed) -> list[dict[str, Any] | None]:
    """Return the details of each completion of a group, also if they are kept as JSON. Empty if none has details."""
    return [_decoded(details) for details in outcome.details] if isinstance(outcome.details, list) else []


def _decoded(kept: Any) -> Any:
    return msgspec.json.decode(kept) if isinstance(kept, msgspec.Raw) else kept


class CompletionScore(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True, gc=False):
    """The result for one completion of a group: a finite score; or no score and an error; or neither, if the grader
    does not apply.

    Attributes:
        score: a finite number, or None.
        reason: the reason of the `gradebox.Score`.
        error: why there is no score.
        values: the named values of the `gradebox.Score`.
        not_applicable: why there is neither a score nor an error.
        details: the details of the `gradebox.Score`, or of what was given in place of a score.
    """

    score: float | None
    reason: str | None = None
    error: OutcomeError | None = None
    values: dict[str, float] | None = None
    not_applicable: str | None = None
    details: dict[str, Any] | None = None


class CompletionResult(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True, gc=False):
    """What the result for one completion of a group has beside the score and the details: see `CompletionScore`."""

    reason: str | None = None
    error: OutcomeError | None = None
    values: dict[str, float] | None = None
    not_applicable: str | None = None


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True, gc=False):
    """A finite score; or no score and an error; or neither, if the grader does not apply.

    Attributes:
        index: the position of the thread in its batch or request, from 0.
        grader: the grader's key and version: `exact-match@3`.
        score: a finite number; None if there is an error or the grader does not apply.
        run_ms: running time of grade() in milliseconds, without the time spent waiting.
        id: the thread's "id", if it has one.
        reason: the reason of the `gradebox.Score`.
        error: why there is no score.
        stdout: the text printed to standard output and standard error, cut at the limit.
        values: the named values of the `gradebox.Score`.
        no_completion: whether the thread does not end with an assistant turn: `thread.completion()` was None.
        not_applicable: why there is neither a score nor an error: the reason of the `gradebox.NotApplicable`.
        details: the details of the `gradebox.Score`, or of the exception raised in place of one. For a group with
            `scores`, a list with those of each completion, None for one without; None if all are without.
        spent: the cost of the asks, if there were any.
        scores: for a group, the score of each completion, in order, None for one without. The outcome's `score` is
            their mean if each has one.
        completions: for a group with `scores`, what else each completion has; None if all have nothing else.
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
    details: Details | None = None
    spent: Spent | None = None
    scores: list[float | None] | None = None
    completions: list[CompletionResult] | None = None


_Undecoded: TypeAlias = msgspec.Raw | msgspec.UnsetType


class _PlainResult(CompletionResult, frozen=True, gc=False):
    values: _Undecoded = msgspec.UNSET  # type: ignore[assignment]


class PlainOutcome(Outcome, frozen=True, gc=False):
    """An outcome whose values and details stay undecoded: as objects they may take twenty times their size as JSON."""

    values: _Undecoded = msgspec.UNSET  # type: ignore[assignment]
    details: _Undecoded = msgspec.UNSET  # type: ignore[assignment]
    completions: list[_PlainResult] | None = None  # type: ignore[assignment]


_T = TypeVar("_T", CompletionScore, Outcome)
_Read = TypeVar("_Read")
_NOTHING = CompletionResult()


def completion_scores(outcome: Outcome) -> list[CompletionScore]:
    """Return the whole result for each completion of a group, in order. Empty if the outcome has no `scores`."""
    if outcome.scores is None:  # a row of a table may have the other lists
        return []
    completions = outcome.completions or [_NOTHING] * len(outcome.scores)
    details = outcome.details if isinstance(outcome.details, list) else [None] * len(outcome.scores)
    return [
        CompletionScore(score, one.reason, one.error, one.values, one.not_applicable, its_details)
        for score, one, its_details in zip(outcome.scores, completions, details, strict=True)
    ]


def with_completion_scores(outcome: Outcome, results: Sequence[CompletionScore]) -> Outcome:
    """Return a copy of the outcome of a group that has these results for its completions."""
    details = [one.details for one in results]
    completions = [CompletionResult(one.reason, one.error, one.values, one.not_applicable) for one in results]
    return msgspec.structs.replace(
        outcome,
        scores=[one.score for one in results],
        details=details if any(each is not None for each in details) else None,
        completions=completions if any(each != _NOTHING for each in completions) else None,
    )


def with_encoded_details(one: _T) -> _T:
    """Return a copy that has its details as JSON; see `encoded`."""
    details: Details | None = one.details
    if details is None:
        return one
    if isinstance(details, list):
        return msgspec.structs.replace(one, details=[None if each is None else encoded(each) for each in details])
    return msgspec.structs.replace(one, details=encoded(details))


class _EarlierScores(msgspec.Struct):
    """The results for the completions of a group, as earlier checkouts wrote them in the line of an outcome."""

    scores: list[CompletionScore]


_earlier_scores = msgspec.json.Decoder(_EarlierScores)


class OutcomeDecoder(Generic[_Read]):
    """Decodes the lines of outcomes that the service keeps, also those of groups that an earlier checkout wrote."""

    def __init__(self, kind: type[_Read]) -> None:
        """Decodes to `kind`: `Outcome`, or a struct with some of its fields. These include `scores`: its type tells the
        lines of earlier checkouts from others.
        """
        decoder = msgspec.json.Decoder(kind)
        self._decode, self._decode_lines = decoder.decode, decoder.decode_lines

    def decode(self, line: bytes) -> _Read:
        """Decode one outcome. Raises msgspec.DecodeError and UnicodeDecodeError."""
        try:
            return self._decode(line)
        except msgspec.ValidationError:
            return self._decode(_in_current_form(line))

    def decode_lines(self, lines: bytes) -> list[_Read]:
        """Decode outcomes, one per line. Raises msgspec.DecodeError and UnicodeDecodeError."""
        try:
            return self._decode_lines(lines)
        except msgspec.ValidationError:
            return [self.decode(line) for line in lines.splitlines()]


def _in_current_form(line: bytes) -> bytes:
    """Convert the line of a group from the form of earlier checkouts. Any other line stays as it is."""
    try:
        results = _earlier_scores.decode(line).scores
    except msgspec.ValidationError:
        return line
    members = msgspec.json.decode(line, type=dict[str, Any])
    del members["scores"]
    return _encode(with_completion_scores(msgspec.convert(members, Outcome), results))


_decoder = OutcomeDecoder(Outcome)


def read_outcomes(lines: bytes) -> list[Outcome]:
    """Decode outcomes, one per line, with their details as JSON. Raises msgspec.DecodeError and UnicodeDecodeError."""
    return [with_encoded_details(_decoder.decode(line)) for line in lines.splitlines()]
