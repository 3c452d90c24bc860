"""Evaluates one observation in a sandbox.

A source is loaded once. Like other loaded graders, its sandbox is then reused for observations of the same Langfuse
project with the same source. Each observation has a process of its own.
"""

from typing import Literal

import msgspec

from api.access.callers import Caller
from api.dialects.langfuse.request import BODY_BYTES, SOURCE_BYTES, EvaluationRequest
from api.dialects.langfuse.scores import InvalidScore, WireScore, check
from api.intake import source_json
from api.services import Services
from gradebox import langfuse
from gradebox.outcome import Outcome, OutcomeError, details_of
from gradebox.schemas import CHECKS
from sandbox.errors import InfrastructureError, Stopped
from sandbox.grader_source import GraderSource
from sandbox.grading.grading import Grading
from sandbox.grading.source_bytes import SourceRefused, SourceTooLong
from sandbox.limits import MAX_LINE_DEPTH

Code = Literal["SOURCE_TOO_LARGE", "PAYLOAD_TOO_LARGE", "UNSUPPORTED_RUNTIME", "TIMEOUT"] | langfuse.ErrorCode

TIMEOUT_S = 5.0
MEMORY_MB = 256
_LOADS = 2  # of a source that ends its sandbox or does not load: only then is it refused
_LABEL = "evaluate"
_PROJECT = "(langfuse)"  # in metrics; its projects are many, and no project here can have this name
_GRADER = """\
from gradebox.langfuse import Evaluator

EVALUATOR = Evaluator({source!r})


async def grade(thread: StringThread) -> float:
    return EVALUATOR(thread)


grade.has_own_loop = True  # `evaluate` may be plain and start one
"""


class EvaluationError(msgspec.Struct):
    """Why there are no scores. The code determines whether Langfuse retries."""

    code: Code
    message: str


class ScoresAnswer(msgspec.Struct):
    """The scores that an evaluator returned."""

    scores: list[WireScore]


class ErrorAnswer(msgspec.Struct):
    """An error in place of scores."""

    error: EvaluationError


def evaluate(caller: Caller, services: Services, request: EvaluationRequest, ends: float) -> bytes:
    """Returns scores or an error, as JSON. The evaluator is stopped at the moment `ends` of the monotonic clock.

    Raises:
        InfrastructureError: no sandbox is available.
        ProblemError: the request is malformed.
        Stopped: the client disconnected.
    """
    answer, run_ms = _evaluate(caller.until(ends), services, request)
    errors: dict[str, int] = {answer.error.code: 1} if isinstance(answer, ErrorAnswer) else {}
    services.metrics.completions.add(_PROJECT, _LABEL, int(not errors), 0, errors, run_ms)
    return msgspec.json.encode(answer)


def _evaluate(
    caller: Caller, services: Services, request: EvaluationRequest
) -> tuple[ScoresAnswer | ErrorAnswer, float]:
    """Returns the answer, and the milliseconds that `evaluate` ran."""
    language = request.runtime.language
    if language != "PYTHON":
        return _failed("UNSUPPORTED_RUNTIME", f"this executor runs Python, and the evaluator is in {language}"), 0.0
    try:
        text = source_json.from_json(request.source, SOURCE_BYTES)
    except SourceTooLong:
        return _failed("SOURCE_TOO_LARGE", f"the source is longer than {SOURCE_BYTES} bytes: shorten it"), 0.0
    except SourceRefused as unreadable:
        return _failed("INVALID_SOURCE", str(unreadable)), 0.0
    source, line = _grader(request.scope.tenant, text), request.line
    refusals: list[ErrorAnswer] = []
    for _ in range(_LOADS):
        with services.pool.grading(source) as grading:
            try:
                refused = _load(grading, caller)
                outcomes = [] if refused else grading.score(line, 0, _LABEL, 1, stop=caller.should_stop)
            except Stopped:
                refused, outcomes = None, []
        if refused is None:
            return (_answer(outcomes[0]), outcomes[0].run_ms) if outcomes else (_overdue(caller), 0.0)
        refusals.append(refused)
    if refusals[0] != refusals[-1]:
        raise InfrastructureError(f"a source could not be loaded in {_LOADS} sandboxes: {refusals[-1].error.message}")
    return refusals[0], 0.0


def _overdue(caller: Caller) -> ErrorAnswer:
    """The timeout as an answer. Raises Stopped if the client disconnected."""
    if caller.is_gone():
        raise Stopped("the connection closed before there was an answer")
    return _failed(
        "TIMEOUT", "the source did not load, or `evaluate` did not end, before Langfuse stops waiting (10 s)"
    )


def _grader(tenant: str, text: str) -> GraderSource:
    return GraderSource(
        _GRADER.format(source=text),
        "completion",
        TIMEOUT_S,
        MEMORY_MB,
        project=tenant,
        stdout_bytes=0,
        line_bytes=BODY_BYTES,
        line_depth=MAX_LINE_DEPTH,
        details_bytes=langfuse.RESULT_BYTES,
    )


def _load(grading: Grading, caller: Caller) -> ErrorAnswer | None:
    """Loads the source. Returns the error if the source cannot be loaded; None if it is loaded.

    An exception that the source raises is reported by the evaluator itself. Raises Stopped if the time is over.
    """
    loaded = grading.load(caller.should_stop)
    if loaded.isolation is not None:
        return None
    if loaded.overdue:
        return _failed("TIMEOUT", "the source took too long to load: do less outside `evaluate`")
    last = loaded.checks[-1]
    return _failed("INVALID_SOURCE", f"the source cannot be loaded ({CHECKS[last.number]}): {last.message}")


def _answer(outcome: Outcome) -> ScoresAnswer | ErrorAnswer:
    if outcome.error is not None:
        return _of_error(outcome.error)
    told = details_of(outcome) or {}
    try:
        if "error" in told:
            return msgspec.convert(told, ErrorAnswer)
        return ScoresAnswer(check(told.get("scores")))
    except InvalidScore as invalid:
        return _failed("INVALID_RESULT", str(invalid))
    except msgspec.ValidationError as error:  # the evaluator wrote the outcome itself
        return _failed("INVALID_RESULT", f"the evaluator ended with an error that is none: {error}")


def _of_error(error: OutcomeError) -> ErrorAnswer:
    """Maps the error of a process. Raises InfrastructureError if the evaluator did not cause it."""
    if error.kind == "infrastructure":
        raise InfrastructureError(error.message)
    if error.kind == "timeout":
        return _failed("TIMEOUT", f"`evaluate` took longer than {TIMEOUT_S:g} s")
    if error.kind == "memory":
        return _failed("USER_CODE_ERROR", f"`evaluate` wanted more memory than {MEMORY_MB} MiB: use less")
    if error.kind == "bad_input":
        return _failed("USER_CODE_ERROR", f"the observation cannot be read: {error.message}")
    return _failed("USER_CODE_ERROR", error.message)


def _failed(code: Code, message: str) -> ErrorAnswer:
    return ErrorAnswer(EvaluationError(code, message))
