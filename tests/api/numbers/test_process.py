import json
from collections.abc import Iterator
from threading import Event

import numpy as np
import pytest

from api.http.problems import ProblemError
from api.numbers import process
from api.numbers.bootstrap import bounds
from api.numbers.jobs import SummaryJob
from sandbox.errors import InfrastructureError, Stopped


def outcome(index: int, score: float | None, grader: str = "g@1") -> bytes:
    return json.dumps({"index": index, "grader": grader, "score": score, "run_ms": 0.1}).encode() + b"\n"


def waits() -> bool:
    return False


def test_intervals_of_each_grader_are_of_its_scores_in_the_order_of_the_threads() -> None:
    scores = np.random.default_rng(5).random(200)
    lines = [
        line
        for index, score in enumerate(scores)
        for line in (outcome(index, score), outcome(index, None, "failed@1"), outcome(index, 1 - score, "other@2"))
    ]
    found = json.loads(process.run(SummaryJob(["g@1", "other@2", "failed@1"], 1000), [lines], waits))
    assert tuple(found[0]) == bounds(scores, 1000)
    assert tuple(found[1]) == bounds(1 - scores, 1000)
    assert found[2] is None


def test_what_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "TIME_S", 1.0)

    def endless() -> Iterator[bytes]:
        while True:
            yield outcome(0, 1.0) * 1000

    with pytest.raises(ProblemError, match="more than 1 s") as caught:
        process.run(SummaryJob(["g@1"], 1000), [endless()], waits)
    assert caught.value.status == 413


def test_what_nobody_waits_for_is_stopped() -> None:
    begun = Event()

    def endless() -> Iterator[bytes]:
        while True:
            begun.set()
            yield outcome(0, 1.0) * 1000

    with pytest.raises(Stopped, match="no longer waits"):
        process.run(SummaryJob(["g@1"], 1000), [endless()], begun.is_set)


def test_a_line_that_is_no_outcome_is_a_fault_of_ours_and_says_so() -> None:
    with pytest.raises(InfrastructureError, match="ValidationError"):
        process.run(SummaryJob(["g@1"], 1000), [[b"[]\n"]], waits)


def test_what_reads_the_outcomes_may_fail() -> None:
    def fails() -> Iterator[bytes]:
        yield outcome(0, 1.0)
        raise OSError("the spool is away")

    with pytest.raises(OSError, match="spool is away"):
        process.run(SummaryJob(["g@1"], 1000), [fails()], waits)
