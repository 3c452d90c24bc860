"""Encodes external scores for requests."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from operator import index
from typing import Any, Literal

from gradebox.errors import GradeboxError
from gradebox.limits import REQUEST_BYTES
from gradebox.score import Score

RecordedScore = float | Score
"""A number, or a `Score` with its reason."""

_AT_ONCE = 20_000
_BYTES = REQUEST_BYTES // 2  # in one body


def score_lines(
    scores: Mapping[str, RecordedScore] | Mapping[int, RecordedScore], by: Literal["id", "index"]
) -> Iterator[bytes]:
    """The bodies of the requests that record the scores, each some JSON lines.

    Raises:
        TypeError: `scores` is no dict.
        ValueError: a score is not a finite number, or there are no scores. Nothing was sent then.
    """
    if by not in ("id", "index"):
        raise ValueError(f"by={by!r} names no threads: say by='id' or by='index'")
    if not isinstance(scores, Mapping):
        raise TypeError(f"{scores!r:.80} is no dict: pass the scores by thread, as {{'sample-1': 1.0}}")
    if not scores:
        raise ValueError("there are no scores to record: give at least one, as {'sample-1': 1.0}")
    lines = [_line(by, thread, score) for thread, score in scores.items()]
    return blocks_of(line.encode() for line in lines)


def blocks_of(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Joins JSON lines into the bodies of as few requests as possible."""
    block: list[bytes] = []
    size = 0
    for line in lines:
        if len(block) == _AT_ONCE or (block and size + len(line) > _BYTES):
            yield b"".join(block)
            block, size = [], 0
        block.append(line)
        size += len(line)
    if block:
        yield b"".join(block)


def note_recorded(error: GradeboxError, recorded: int) -> None:
    """Adds to the error of a request how many scores earlier requests recorded."""
    if recorded:
        error.add_note(
            f"this is the request that begins at score {recorded + 1:,}, and lines count from there: the {recorded:,} "
            "scores before it are recorded"
        )


def _line(by: str, thread: str | int, score: RecordedScore) -> str:
    number = _number(thread, score)
    line: dict[str, Any] = {by: thread if isinstance(thread, str) else index(thread), "score": number}
    if isinstance(score, Score) and score.reason is not None:
        line["reason"] = score.reason
    return json.dumps(line) + "\n"


def _number(thread: str | int, score: object) -> float:
    if isinstance(score, str) or not hasattr(score, "__float__"):  # numpy's numbers have it too
        raise ValueError(f"the score of thread {thread!r} is {score!r:.80}, and no number: nothing was recorded")
    number = float(score)
    if not math.isfinite(number):
        raise ValueError(f"the score of thread {thread!r} is {number}, and a score is finite: nothing was recorded")
    return number
