"""Check 5: `grade`, awaited on threads, gives finite numbers, and the same ones again.

This judges what came of the run: the run itself is that of any batch.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from validators.candidate import FILENAME, CheckFailed

_FRAME = re.compile(rf'^  File "{re.escape(FILENAME)}", line ([0-9]{{1,9}}), in ', re.MULTILINE)

DEFAULT_THREAD = (
    b'{"messages":[{"role":"user","content":"What is 2+2?"},{"role":"assistant","content":"4"}],"metadata":{}}'
)


class Run(NamedTuple):
    """What one thread of the test run came to: a score, or an error with its trace."""

    score: float | None
    kind: str
    message: str
    trace: str


def check(runs: Sequence[Run], source: str = "") -> str:
    """Every thread must have a score. `source` is the grader's where the default thread was graded, and no other."""
    for number, run in enumerate(runs):
        if run.score is None:
            where = f" on thread {number}" if len(runs) > 1 else ""
            message = f"`grade` gave no score{where} ({run.kind}): {run.message}{_hint(run, source)}"
            raise CheckFailed(message, line_of(run.trace), 0, run.trace)
    if len(runs) == 1:
        return f"`grade` returned {runs[0].score}"
    return f"`grade` returned a finite number for each of {len(runs)} threads"


def line_of(trace: str) -> int:
    """The line of the innermost frame of a traceback of the grader's own; 0 where there is none."""
    lines = _FRAME.findall(trace)
    return int(lines[-1]) if lines else 0


def _hint(run: Run, source: str) -> str:
    """What to do where metadata seems to be lacking, as the default thread has none."""
    lacks = "metadata" in run.trace or (run.message.startswith("KeyError") and "metadata" in source)
    if not (source and lacks):
        return ""
    return (
        ". The default thread of the test run has no metadata: send threads that have some "
        "(`threads=`, `--threads FILE.jsonl`), or read it with `thread.metadata.get(...)`."
    )


def warnings(first: Sequence[Run], second: Sequence[Run]) -> list[str]:
    """Where the two runs disagree: scores that are no function of the thread teach a model noise."""
    found = []
    for number, (one, two) in enumerate(zip(first, second, strict=True)):
        if one.score != two.score and one.score is not None:
            again = two.score if two.score is not None else f"an error ({two.kind})"
            found.append(
                f"thread {number} was scored {one.score} the first time and {again} the second: "
                "the same completion should always get the same score"
            )
    return found[:10]
