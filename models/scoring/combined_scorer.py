"""Scores threads with a combination of graders that ask nothing: each part scores all threads in a sandbox, and the
results are combined here.

The source of a combination does the same in a sandbox, in which each thread asks for each part. That costs about six
times as much.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from time import monotonic
from typing import NamedTuple, cast

from gradebox.asks.errors import ModelError
from gradebox.judges.combine import Combine, Said
from gradebox.outcome import AskFailure, CompletionScore, Outcome, OutcomeError, Spent, details_of
from gradebox.score import NotApplicable, Score
from models.replies.answer_json import MESSAGE_CHARACTERS
from models.scoring.asking_scorer import lines_of
from sandbox.errors import InfrastructureError
from sandbox.grading.five_checks import Scorer
from sandbox.grading.grading import NO_SANDBOX
from sandbox.grading.grading_call import Stop
from sandbox.grading.session import count_lines
from sandbox.grading.slice_size import SliceSize
from sandbox.grading.thread_ids import read_ids
from sandbox.guest.protocol.fields import encode

_HELD = 1000  # outcomes of parts at a time: no more than one grader has in a chunk
_KEPT = 1000  # cached results

Lend = Callable[[], AbstractContextManager[Scorer]]


class PartScorer(NamedTuple):
    """The scorer of a part: the label of its version, and a function that lends the scorer."""

    label: str
    lend: Lend


class Missing:
    """Replaces the scorer of a part that was deleted."""

    def __init__(self, message: str) -> None:
        self._error = OutcomeError("model", message, cause="unknown")
        self.traces: dict[int, str] = {}

    def score(
        self, payload: bytes, first_index: int, label: str, lines: int | None = None, *, stop: Stop | None = None
    ) -> list[Outcome]:
        """Like `Grading.score`: returns an error for each thread."""
        count = count_lines(payload) if lines is None else lines
        return _unscored(payload, first_index, label, 0, count, self._error)


class _InTurns(ExitStack):
    """Runs the parts in turn; one part at a time has a sandbox. The last part of a slice is the first of the next
    slice, because exchanging a sandbox takes as long as scoring hundreds of threads.
    """

    def __init__(self, parts: Iterable[PartScorer]) -> None:
        super().__init__()
        self._parts = list(enumerate(parts))
        self._scorer: Scorer | None = None

    def score(self, threads: Sequence[memoryview], stop: Stop | None) -> list[list[Outcome]]:
        """Return the outcomes of each part; fewer if it was stopped."""
        payload = b"\n".join(threads)
        found: dict[int, list[Outcome]] = {}
        for number, part in self._parts:
            if found or self._scorer is None:
                self.close()
                self._scorer = self.enter_context(part.lend())
            found[number] = self._scorer.score(payload, 0, part.label, len(threads), stop=stop)
        self._parts.reverse()
        return [found[number] for number in range(len(found))]


class CombinedScorer:
    """Made for one combination. Its outcomes equal those of the combination's source."""

    def __init__(self, combine: Combine, parts: Mapping[str, PartScorer], text_bytes: int) -> None:
        """`text_bytes`: how many bytes of a reason or a message are kept, as in a sandbox."""
        self._combine = combine
        self._text_bytes = text_bytes
        self._parts = parts
        self._slice_size = SliceSize(first=1)
        self._most = max(_HELD // len(parts), 1)
        self._bits = struct.Struct(f"{len(parts)}d")
        self._results: dict[bytes, CompletionScore] = {}
        self.traces: dict[int, str] = {}

    def score(
        self, payload: bytes, first_index: int, label: str, lines: int | None = None, *, stop: Stop | None = None
    ) -> list[Outcome]:
        """Like `Grading.score`, with the same exceptions. When `stop` returns true, the result is the outcomes of the
        leading threads that every part has scored.
        """
        count = count_lines(payload) if lines is None else lines
        threads = list(lines_of(payload, count))
        outcomes: list[Outcome] = []
        with _InTurns(self._parts.values()) as parts:
            while len(outcomes) < count:
                began, done = monotonic(), len(outcomes)
                slice_lines = threads[done : done + min(self._slice_size.lines, self._most)]
                try:
                    scored = parts.score(slice_lines, stop and partial(_stopped, stop, done))
                except (InfrastructureError, OSError):
                    if not done:
                        raise
                    return outcomes + _unscored(payload, first_index, label, done, count, NO_SANDBOX)
                outcomes += [
                    self._outcome(of_thread, first_index + done, label) for of_thread in zip(*scored, strict=False)
                ]
                if len(outcomes) < done + len(slice_lines):
                    break
                self._slice_size.took(len(slice_lines), monotonic() - began)
        return outcomes

    def _outcome(self, parts: Sequence[Outcome], first_index: int, label: str) -> Outcome:
        first = parts[0]
        index, run_ms = first_index + first.index, sum([part.run_ms for part in parts])
        if error := _fault(parts):
            return Outcome(index, label, None, run_ms, first.id, error=error)
        whole = self._result(parts)
        return Outcome(
            index,
            label,
            whole.score,
            run_ms,
            first.id,
            whole.reason,
            whole.error,
            values=whole.values,
            no_completion=first.no_completion,
            not_applicable=whole.not_applicable,
            details=whole.details,
            spent=Spent(asks=sum(part.error is None or part.error.cause != "unknown" for part in parts)),  # as if asked
        )

    def _result(self, parts: Sequence[Outcome]) -> CompletionScore:
        """Combines the parts. If all parts have only a score, the result is cached by the scores: most rewards take few
        values, and building `details` takes longer than running a simple grader.
        """
        scores = [part.score for part in parts if _is_bare(part)]
        if len(scores) < len(parts):
            return self._combined(parts)
        bits = self._bits.pack(*scores)
        found = self._results.get(bits)
        if found is None:
            if len(self._results) == _KEPT:
                self._results.clear()
            found = self._results[bits] = self._combined(parts)
        return found

    def _combined(self, parts: Sequence[Outcome]) -> CompletionScore:
        said = {name: _said(one.label, part) for (name, one), part in zip(self._parts.items(), parts, strict=True)}
        try:
            score = self._combine.result_of(said)
        except ModelError as error:
            cause = cast(AskFailure, error.kind)  # `Combine` sets only kinds of AskFailure
            reported = OutcomeError(
                "model", self._cut(error.message), error.retryable, cause, self._cut(error.reply) or None
            )
            return CompletionScore(None, error=reported, details=error.details)
        except NotApplicable as why:
            return CompletionScore(None, not_applicable=self._cut(why.reason), details=why.details)
        except (ValueError, RecursionError) as problem:
            message = f"the results of the parts do not fit into an outcome: {problem}"
            return CompletionScore(None, error=OutcomeError("bad_return", message))
        reason = None if score.reason is None else self._cut(score.reason)
        return CompletionScore(float(score), reason, values=score.values, details=score.details)

    def _cut(self, text: str) -> str:
        """Cut a text as the sandbox cuts the texts of an outcome."""
        return encode(text, self._text_bytes).decode("utf-8", "replace")


def _unscored(
    payload: bytes, first_index: int, label: str, done: int, count: int, error: OutcomeError
) -> list[Outcome]:
    """The error for each thread from number `done` on."""
    ids = read_ids(payload, count)[done:]
    return [
        Outcome(first_index + number, label, None, 0.0, identity, error=error)
        for number, identity in enumerate(ids, done)
    ]


def _stopped(stop: Stop, done: int, _: int) -> bool:
    """`stop` for a part: threads count only once every part has scored them, so only earlier slices count."""
    return stop(done)


def _is_bare(part: Outcome) -> bool:
    return part.score is not None and part.reason is None and part.values is None and part.details is None


def _fault(parts: Iterable[Outcome]) -> OutcomeError | None:
    """The error that prevents combining: the line is not a thread, or the service failed."""
    for part in parts:
        if part.error is not None and part.error.kind in ("bad_input", "infrastructure"):
            return part.error
    return None


def _said(label: str, outcome: Outcome) -> Said:
    """The outcome of a part, in the form in which a grader receives the answer of another grader."""
    if outcome.not_applicable is not None:
        return NotApplicable(outcome.not_applicable)
    if outcome.score is None:
        assert outcome.error is not None
        error = outcome.error
        if error.cause is not None:  # the part was deleted: graders that ask nothing have no other failed asks
            return ModelError(error.cause, error.message)
        message = f"grader {label!r} has no score ({error.kind}): {error.message}"[:MESSAGE_CHARACTERS]
        return ModelError("failed", message, error.retryable, error.reply or "")
    return Score(outcome.score, outcome.reason, outcome.values, details_of(outcome))
