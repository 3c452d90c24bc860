"""Converts the guest's records to outcomes. The records may come from a process that a completion has taken over, so
all of their content is checked again.
"""

from collections.abc import Callable, Sequence
from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from gradebox.outcome import AskFailure, ErrorKind, Outcome, OutcomeError, encoded, with_completion_scores
from gradebox.score import is_too_deep
from sandbox.grading.group_scores import read_scores, result_of
from sandbox.guest.protocol.fields import (
    CAUSE,
    DETAILS,
    MESSAGE,
    REASON,
    REPLY,
    REQUESTS,
    SCORES,
    STDOUT,
    TRACE,
    VALUES,
    Malformed,
    most_of_fields,
    unpack_fields,
    unpack_requests,
    unpack_values,
)
from sandbox.guest.protocol.grader_limits import GraderLimits
from sandbox.guest.protocol.records import (
    ASKED,
    BAD_INPUT,
    BAD_RETURN,
    CRASH,
    EXCEPTION,
    MARK,
    MEMORY,
    MODEL,
    NO_COMPLETION,
    NOT_APPLICABLE,
    RECORD,
    SCORED,
    TIMEOUT,
    Records,
)

KINDS: dict[int, ErrorKind] = {
    EXCEPTION: "exception",
    BAD_RETURN: "bad_return",
    TIMEOUT: "timeout",
    MEMORY: "memory",
    CRASH: "crash",
    BAD_INPUT: "bad_input",
    MODEL: "model",
}
_CAUSES: dict[bytes, AskFailure] = {cause.encode(): cause for cause in get_args(AskFailure)}
_INFINITY = float("inf")
_SCORED = MARK | SCORED
_SPOILED = "the completion wrote to the memory that carries its result, and corrupted it"
_NOT_FINITE = OutcomeError("bad_return", "the score that came out of the sandbox is not finite")
OUT_OF_MEMORY = "all processes together wanted more memory than `memory_mb` allows: use less, or raise it"


class Asked(msgspec.Struct, frozen=True, gc=False):
    """A run that ended with asks. It starts again once they are answered."""

    index: int
    id: str | int | None
    run_ms: float
    requests: list[bytes]


class Decoder:
    """Reads the records of one grading call, which belong to consecutive threads.

    `ran_out_of_memory` is called when a process died of an unknown cause, possibly the kernel's OOM killer. `limits`
    are the limits that were sent to the guest: a forged record may exceed them. For a grader of groups, `group_size`
    returns the number of threads in the line with an index.
    """

    def __init__(
        self,
        label: str,
        limits: GraderLimits,
        ran_out_of_memory: Callable[[], bool],
        group_size: Callable[[int], int] | None = None,
    ) -> None:
        self._label = label
        self._most = most_of_fields(limits)
        self._ran_out_of_memory = ran_out_of_memory
        self._group_size = group_size
        self._plain = _SCORED if group_size is None else -1  # the kind of a record that needs no fields
        self.traces: dict[int, str] = {}

    def decode(self, records: Records, first_index: int, ids: Sequence[str | int | None]) -> list[Outcome]:
        """Returns the outcomes of whole records, whose threads have these ids. Invalid fields make the outcome of that
        completion alone a crash: the supervisor sets where a record begins and ends, and a child writes the content
        between.
        """
        return self._decode(records, first_index, ids, self._outcome)

    def decode_runs(self, records: Records, first_index: int, ids: Sequence[str | int | None]) -> list[Outcome | Asked]:
        """Returns the outcomes of records of a grader that asks: some runs have no outcome yet."""
        return self._decode(records, first_index, ids, self._of_run)

    def _decode(
        self,
        records: Records,
        first_index: int,
        ids: Sequence[str | int | None],
        read: Callable[[int, str | int | None, int, int, float, dict[int, bytes]], Outcome | Asked],
    ) -> list[Any]:
        """The result of each record; `read` interprets the records that have fields."""
        outcomes: list[Outcome | Asked] = []
        label, bodies, plain = self._label, records.bodies, self._plain
        position = 0
        numbered = enumerate(zip(RECORD.iter_unpack(records.heads), ids, strict=True), first_index)
        for index, ((micros, score, length, kind), identity) in numbered:
            if not length and kind == plain and -_INFINITY < score < _INFINITY:
                outcomes.append(Outcome(index, label, score, micros / 1000, identity))
                continue
            body = bodies[position : position + length]
            position += length
            try:
                fields = unpack_fields(body, self._most)
                outcomes.append(read(index, identity, kind ^ MARK, micros, score, fields))
            except Malformed as problem:
                error = OutcomeError("crash", f"{_SPOILED} ({problem})")
                outcomes.append(Outcome(index, label, None, micros / 1000, identity, error=error))
        return outcomes

    def _of_run(
        self, index: int, identity: str | int | None, kind: int, micros: int, score: float, fields: dict[int, bytes]
    ) -> Outcome | Asked:
        if kind & ~NO_COMPLETION == ASKED:
            return Asked(index, identity, micros / 1000, unpack_requests(fields.get(REQUESTS, b"")))
        return self._outcome(index, identity, kind, micros, score, fields)

    def _outcome(
        self, index: int, identity: str | int | None, kind: int, micros: int, score: float, fields: dict[int, bytes]
    ) -> Outcome:
        reported, kind, unanswered = kind, kind & ~NO_COMPLETION, bool(kind & NO_COMPLETION)
        stdout = _text(fields.get(STDOUT))
        if (SCORES in fields) != (kind == SCORED and self._group_size is not None):
            raise Malformed("scores of a group that there are not to be, or none where there are")
        found = Outcome(index, self._label, None, micros / 1000, identity, None, None, stdout, None, unanswered)
        if self._group_size is not None and kind == SCORED:
            return self._of_group(found, self._group_size(index), fields)
        if kind == SCORED and -_INFINITY < score < _INFINITY:
            values = unpack_values(fields[VALUES]) if VALUES in fields else None
            return _with_details(replace(found, score=score, reason=_text(fields.get(REASON)), values=values), fields)
        if kind == NOT_APPLICABLE:
            return _with_details(replace(found, not_applicable=_text(fields.get(MESSAGE)) or ""), fields)
        if kind == SCORED:
            error = _NOT_FINITE
        elif kind in KINDS:
            error = _of_ask(fields) if kind == MODEL else self._error(kind, _text(fields.get(MESSAGE)) or "")
            if trace := _text(fields.get(TRACE)):
                self.traces[index] = trace
        else:
            raise Malformed(f"a record of kind {reported}")
        failed = replace(found, error=error)
        return _with_details(failed, fields) if kind == MODEL else failed

    def _of_group(self, found: Outcome, size: int, fields: dict[int, bytes]) -> Outcome:
        most = self._most[MESSAGE]
        scores = read_scores(fields[SCORES], size, most)
        result = result_of(scores, most)
        if result.error is not None and (trace := _text(fields.get(TRACE))):
            self.traces[found.index] = trace
        whole = replace(found, score=result.score, error=result.error, not_applicable=result.not_applicable)
        return with_completion_scores(whole, scores)

    def _error(self, kind: int, message: str) -> OutcomeError:
        if kind == CRASH and self._ran_out_of_memory():
            return OutcomeError("memory", OUT_OF_MEMORY)
        return OutcomeError(KINDS[kind], message)


def _of_ask(fields: dict[int, bytes]) -> OutcomeError:
    reported = fields.get(CAUSE, b"")
    if reported[1:] not in _CAUSES:
        raise Malformed("an ask that failed for an unknown reason")
    message = _text(fields.get(MESSAGE)) or ""
    return OutcomeError("model", message, reported[:1] == b"\x01", _CAUSES[reported[1:]], _text(fields.get(REPLY)))


def _with_details(outcome: Outcome, fields: dict[int, bytes]) -> Outcome:
    return replace(outcome, details=_details(fields[DETAILS])) if DETAILS in fields else outcome


def _details(data: bytes) -> dict[str, Any]:
    """Checks details."""
    try:
        details = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as problem:
        raise Malformed(
            "details that are no JSON, or nested too deep, or hold a number of more than 64 bits"
        ) from problem
    if is_too_deep(details):
        raise Malformed("details that are nested too deep")
    return encoded(details)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")
