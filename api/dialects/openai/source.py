"""Runs python graders in sandboxes."""

from api.dialects.openai.refused import Refused
from api.services import Services
from gradebox import openai_grader
from gradebox.outcome import Outcome
from gradebox.schemas import CHECKS
from sandbox.grader_source import GraderSource
from sandbox.grading import Grading
from sandbox.limits import MAX_MEMORY_MB, MAX_TIMEOUT_S
from sandbox.source_bytes import SourceRefused, from_bytes

_LABEL = "python"


def check(services: Services, project: str, source: str, param: str) -> None:
    """Raises Refused where the source cannot be loaded: the first four checks. A test run would need an item."""
    with services.pool.grading(_grader(project, source, param)) as grading:
        _check(grading, source, param)


def run(
    services: Services, project: str, source: str, line: bytes, param: str, timeout_s: float = MAX_TIMEOUT_S
) -> Outcome:
    """What it says of one thread. Raises Refused as `check` does."""
    with services.pool.grading(_grader(project, source, param, timeout_s)) as grading:
        _check(grading, source, param)
        return grading.score(line, 0, _LABEL, 1)[0]


def _grader(project: str, source: str, param: str, timeout_s: float = MAX_TIMEOUT_S) -> GraderSource:
    try:
        text = from_bytes(openai_grader(source).encode("utf-8", "surrogatepass"))
    except SourceRefused as refused:
        raise Refused(str(refused), param) from refused
    return GraderSource(text, timeout_s=timeout_s, memory_mb=MAX_MEMORY_MB, project=project)


def _check(grading: Grading, source: str, param: str) -> None:
    loaded = grading.session.loaded
    assert loaded is not None
    if loaded.isolation is not None:
        return
    failed = loaded.checks[-1]
    # What is appended to the source begins behind its last line.
    where = f" (line {failed.line})" if 0 < failed.line <= source.count("\n") + 1 else ""
    trace = f"\n{failed.trace}" if where and failed.trace else ""
    raise Refused(f"check {CHECKS[failed.number]!r} failed{where}: {failed.message}{trace}", param)
