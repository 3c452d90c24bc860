"""Check 5: `grade`, awaited on threads, returns finite numbers, and the same ones in a second run.

This module only checks results. The threads are scored in the same way as those of a batch.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from validators.candidate import FILENAME, CheckFailed

_FRAME = re.compile(rf'^  File "{re.escape(FILENAME)}", line ([0-9]{{1,9}}), in ', re.MULTILINE)

_MOST_SHOWN = 8
DEFAULT_THREAD = (
    b'{"messages":[{"role":"user","content":"What is 2+2?"},{"role":"assistant","content":"4"}],"metadata":{}}'
)
DEFAULT_GROUP = b'{"prompt":"What is 2+2?","completions":["4","It is 5."]}'


class Run(NamedTuple):
    """The result of one thread of the test run: a score, an error with its trace, or the reason why the grader does
    not apply. For a group, `scores` are the scores of its completions.
    """

    score: float | None
    kind: str
    message: str
    trace: str
    not_applicable: str | None = None
    scores: tuple[float | None, ...] = ()


def check(runs: Sequence[Run], source: str = "") -> str:
    """Fails if a thread has no score although the grader applies to it. `source` is empty unless the default thread was
    graded.
    """
    for number, run in enumerate(runs):
        if run.score is None and run.not_applicable is None:
            where = f" on thread {number}, counted from 0" if len(runs) > 1 else ""
            message = f"`grade` gave no score{where} ({run.kind}): {run.message}{_hint(run, source)}"
            raise CheckFailed(message, line_of(run.trace), 0, run.trace)
    passed_over = [run.not_applicable for run in runs if run.not_applicable is not None]
    if len(runs) == 1:
        if passed_over:
            return f"`grade` does not apply: {passed_over[0]}"
        many = len(runs[0].scores)
        return f"`grade` returned {f'a score for each of {many} completions' if many else runs[0].score}"
    if passed_over:
        return (
            f"`grade` returned a finite number, or that it does not apply ({len(passed_over)} of {len(runs)} threads)"
        )
    return f"`grade` returned a finite number for each of {len(runs)} threads"


def line_of(trace: str) -> int:
    """The line of the innermost frame of the grader in a traceback, 0 if there is none."""
    lines = _FRAME.findall(trace)
    return int(lines[-1]) if lines else 0


def _hint(run: Run, source: str) -> str:
    """A hint if the grader seems to need metadata, which the default thread does not have."""
    lacks = "metadata" in run.trace or (run.message.startswith("KeyError") and "metadata" in source)
    if not (source and lacks) or run.message.startswith("NameError"):
        return ""
    return (
        ". The default thread of the test run has no metadata: send threads that have some "
        "(`threads=`, `--threads FILE.jsonl`), or read it with `thread.metadata.get(...)`."
    )


def warnings(first: Sequence[Run], second: Sequence[Run]) -> list[str]:
    """A warning for each thread whose score differs between the two runs: an unstable reward is noise. The second run
    may have ended early, with fewer threads.
    """
    found = []
    for number, (one, two) in enumerate(zip(first, second, strict=False)):
        if (one.score, one.scores) != (two.score, two.scores) and one.score is not None:
            none = f"an error ({two.kind})" if two.not_applicable is None else "that it does not apply"
            again = _told(two) if two.score is not None else none
            found.append(
                f"thread {number}, counted from 0, was scored {_told(one)} the first time and {again} the second: "
                "the same completion should always get the same score"
            )
    graded = f"{len(second)} of {len(first)}"
    early = f"the time for the test run sufficed to grade {graded} threads twice: send fewer, or shorter ones"
    return [*found[:10], *[early] * (len(second) < len(first))]


def _told(run: Run) -> str:
    """The score as text; for a group, the first eight scores."""
    if not run.scores:
        return str(run.score)
    told = ", ".join(map(str, run.scores[:_MOST_SHOWN]))
    return f"{told}, …" if len(run.scores) > _MOST_SHOWN else told
