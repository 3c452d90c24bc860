"""Scores threads in real sandboxes."""

import json
from typing import Any

import pytest

from gradebox.outcome import Outcome
from sandbox.grader_source import GraderSource
from sandbox.pool.pool import Pool

BOTH = pytest.mark.parametrize("isolation", ["batch", "completion"])
LENGTH = "async def grade(thread):\n    return len(thread.completion())\n"


def line(completion: object, **more: Any) -> bytes:
    """A thread as JSON."""
    return json.dumps({"completion": completion, **more}).encode()


def score(pool: Pool, source: GraderSource, lines: list[bytes], first_index: int = 0) -> list[Outcome]:
    """The outcomes of these threads by one call."""
    with pool.grading(source) as grading:
        return grading.score(b"\n".join(lines), first_index, "g@1")


def kinds(outcomes: list[Outcome]) -> list[float | str | None]:
    """The score of each outcome, or the kind of its error."""
    return [outcome.error.kind if outcome.error else outcome.score for outcome in outcomes]
