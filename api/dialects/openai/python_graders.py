"""Runs python graders in sandboxes."""

from api.access.callers import Caller
from api.dialects.openai.problems import OpenAIProblem
from api.services import Services
from gradebox import openai_grader
from gradebox.outcome import Outcome
from gradebox.schemas import CHECKS
from sandbox.errors import Stopped
from sandbox.grader_source import GraderSource
from sandbox.grading.grading import Grading
from sandbox.grading.source_bytes import SourceRefused, from_bytes

_LABEL = "python"


def check(services: Services, caller: Caller, source: str, param: str) -> None:
    """Runs the first four checks; a test run would need an item.

    Raises:
        OpenAIProblem: the source cannot be loaded.
        InfrastructureError: no sandbox is available.
        ProblemError: it took too long.
        Stopped: the client disconnected.
    """
    with services.pool.grading(_grader(caller, source, param, caller.limits.timeout_s)) as grading:
        _check(grading, caller, source, param)


def run(services: Services, caller: Caller, source: str, line: bytes, param: str, timeout_s: float) -> Outcome:
    """Runs the grader on one thread. Raises as `check` does."""
    with services.pool.grading(_grader(caller, source, param, timeout_s)) as grading:
        _check(grading, caller, source, param)
        outcomes = grading.score(line, 0, _LABEL, 1, stop=caller.should_stop)
    if not outcomes:
        raise caller.why(f"{param} did not finish")
    return outcomes[0]


def _grader(caller: Caller, source: str, param: str, timeout_s: float) -> GraderSource:
    try:
        whole = openai_grader(source).encode("utf-8", "surrogatepass")
        text = from_bytes(whole, caller.limits.source_bytes)
    except SourceRefused as refused:
        raise OpenAIProblem(str(refused), param) from refused
    return GraderSource(text, timeout_s=timeout_s, memory_mb=caller.limits.memory_mb, project=caller.project)


def _check(grading: Grading, caller: Caller, source: str, param: str) -> None:
    try:
        loaded = grading.load(caller.should_stop)
    except Stopped as stopped:
        raise caller.why(f"{param} was not loaded") from stopped
    if loaded.isolation is not None:
        return
    failed = loaded.checks[-1]
    # The code appended to the source begins after its last line, and its line numbers mean nothing to the caller.
    where = f" (line {failed.line})" if 0 < failed.line <= source.count("\n") + 1 else ""
    trace = f"\n{failed.trace}" if where and failed.trace else ""
    raise OpenAIProblem(f"check {CHECKS[failed.number]!r} failed{where}: {failed.message}{trace}", param)
