"""Tests of calls that take long, which several sandboxes score at once."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from gradebox.outcome import Outcome
from sandbox.errors import InfrastructureError
from sandbox.grader_source import GraderSource
from sandbox.grading import processor_watch
from sandbox.grading.grading import NO_SANDBOX, Grading
from sandbox.kernel.usage import Starved
from sandbox.pool import parallel_call
from sandbox.pool import pool as pool_module
from sandbox.pool.parallel_call import ParallelCall
from sandbox.pool.pool import Pool, open_pool
from sandbox.settings import SandboxSettings
from tests.waiting import eventually

pytestmark = pytest.mark.sandbox

_SLEEPS = """
import time

async def grade(thread):
    time.sleep(thread.metadata["seconds"])
    if thread.metadata["raises"]:
        raise ValueError("no")
    return float(thread.completion())
"""


def line(number: int, seconds: float = 0.15, *, raises: bool = False) -> bytes:
    thread = {"id": f"t{number}", "completion": str(number), "metadata": {"seconds": seconds, "raises": raises}}
    return json.dumps(thread).encode()


class Lending:
    """A pool whose sandboxes are counted. The second one and later ones may fail."""

    def __init__(self, pool: Pool, *, others_fail: bool = False) -> None:
        self._pool = pool
        self._others_fail = others_fail
        self.spare_processors = pool.spare_processors
        self.lent: list[Grading] = []
        self.given_back = 0
        self.seconds = 0.0

    @contextmanager
    def grading(self, source: GraderSource, place_s: float | None = None) -> Iterator[Any]:
        with self._pool.grading(source, place_s) as grading:
            self.lent.append(grading)
            yield _Failing() if self._others_fail and len(self.lent) > 1 else grading
        self.given_back += 1

    def score(self, lines: list[bytes], isolation: Any = "completion", stop: Any = lambda done: False) -> list[Any]:
        source, began = GraderSource(_SLEEPS, isolation), time.monotonic()
        with self.grading(source) as grading:
            found = ParallelCall(self, source, lines, "g@1", stop).score(grading)  # type: ignore[arg-type]
        self.seconds = time.monotonic() - began
        return [(one.index, one.id, one.score, one.error and one.error.kind) for one in found]


class _LosesItsSandbox:
    """The caller's thread, whose sandbox is lost after others have scored the last lines."""

    def load(self, _: object) -> None: ...

    def score(self, _: bytes, first: int, label: str, lines: int, *, stop: Any) -> list[Outcome]:
        while not stop(1) and time.monotonic() < self.ends:
            time.sleep(0.05)
        scored = Outcome(0, label, 0.0, 0.0, "t0")
        return [scored, *(Outcome(number, label, None, 0.0, error=NO_SANDBOX) for number in range(1, lines))]

    ends = 0.0


class _Failing:
    def load(self, _: object) -> None: ...

    def score(self, *_: object, **__: object) -> None:
        raise InfrastructureError("the sandbox is gone")


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (parallel_call, pool_module):
        monkeypatch.setattr(module, "processor_count", lambda: 2)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call is long after 0.2 s."""
    monkeypatch.setattr(parallel_call, "_ALONE_S", 0.2)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("isolation", ["completion", "batch"])
def test_a_long_call_has_several_sandboxes_and_its_outcomes_are_in_order(pool: Pool, isolation: Any) -> None:
    lending = Lending(pool)
    lines = [line(number, raises=number in (3, 13)) for number in range(16)]
    found = lending.score(lines, isolation)
    assert found == [
        (number, f"t{number}", *((None, "exception") if number in (3, 13) else (float(number), None)))
        for number in range(16)
    ]
    assert len(lending.lent) == 2


@pytest.mark.usefixtures("soon")
def test_sandboxes_work_at_once(pool: Pool) -> None:
    lending = Lending(pool)
    lending.score([line(number, 0.5) for number in range(12)])
    assert lending.seconds < 5.0  # one after the other takes 6


@pytest.mark.parametrize(("count", "seconds"), [(100, 0.0), (12, 0.125)], ids=["short", "nearly over"])
def test_a_call_that_is_soon_over_has_one_sandbox(pool: Pool, count: int, seconds: float) -> None:
    lending = Lending(pool)
    found = lending.score([line(number, seconds) for number in range(count)])
    assert [score for _, _, score, _ in found] == [float(number) for number in range(count)]
    assert len(lending.lent) == 1


def test_one_slow_thread_among_fast_ones_is_scored_once(pool: Pool) -> None:
    lending = Lending(pool)
    found = lending.score([line(0, 1.5), *(line(number, 0.01) for number in range(1, 30))])
    assert [score for _, _, score, _ in found] == [float(number) for number in range(30)]
    assert lending.seconds < 1.5 + 0.9  # the others did not wait for it


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("why", ["no place is free", "it fails in the middle"])
def test_without_a_second_sandbox_the_first_scores_all(pool: Pool, why: str) -> None:
    lines = [line(number) for number in range(8)]
    if why == "no place is free":
        with open_pool(SandboxSettings(most_sandboxes=1)) as small:
            lending = Lending(small)
            found = lending.score(lines)
    else:
        found = Lending(pool, others_fail=True).score(lines)
    assert found == [(number, f"t{number}", float(number), None) for number in range(8)]


@pytest.mark.usefixtures("soon")
def test_a_second_sandbox_ends_when_another_call_needs_a_processor(pool: Pool) -> None:
    lending = Lending(pool)
    lines = [line(number, 0.2) for number in range(40)]
    with ThreadPoolExecutor(1) as threads, pool.grading(GraderSource(_SLEEPS, "completion", project="p")) as other:
        call = threads.submit(lending.score, lines)
        eventually(lambda: pool.spare_processors() == 0, 10)
        assert lending.given_back == 0
        other.load()
        eventually(lambda: lending.given_back == 1, 5)
        assert not call.done()
        other.score(line(0, 0.0), 0, "g@1")
        assert call.result() == [(number, f"t{number}", float(number), None) for number in range(40)]
    assert len(lending.lent) == 2


@pytest.mark.usefixtures("soon")
def test_beside_another_call_none_has_a_second_sandbox(pool: Pool) -> None:
    lending = Lending(pool)
    with pool.grading(GraderSource(_SLEEPS, "completion", project="p")) as other:
        other.load()
        found = lending.score([line(number) for number in range(8)])
    assert [score for _, _, score, _ in found] == [float(number) for number in range(8)]
    assert len(lending.lent) == 1


@pytest.mark.usefixtures("soon")
def test_outcomes_of_the_others_count_where_the_first_lost_its_sandbox(pool: Pool) -> None:
    lines = [line(number, 0.0) for number in range(8)]
    first = _LosesItsSandbox()
    first.ends = time.monotonic() + 2.0
    call = ParallelCall(pool, GraderSource(_SLEEPS, "completion"), lines, "g@1", lambda done: False)
    found = call.score(first)  # type: ignore[arg-type]
    assert [(one.index, one.score, one.error and one.error.kind) for one in found] == [
        (0, 0.0, None),
        (1, None, "infrastructure"),  # the line that it had begun
        *((number, float(number), None) for number in range(2, 8)),
    ]


_UNTIL = """
import time

async def grade(thread):
    time.sleep(max(0.0, thread.metadata["until"] - time.time()))
    return 1.0
"""


def test_what_got_no_processor_is_scored_again(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor_watch, "starved", lambda before, after, wanted: Starved(0.25, 1.0))
    source = GraderSource(_UNTIL, "completion", timeout_s=1.0)
    with pool.grading(source) as grading:
        grading.load()
        waits = {"completion": "", "metadata": {"until": time.time() + 1.5}}
        call = ParallelCall(pool, source, [json.dumps(waits).encode()], "g@1", lambda done: False)
        [outcome] = call.score(grading)
    assert outcome.score == 1.0


@pytest.mark.usefixtures("soon")
def test_a_caller_that_stops_has_the_first_outcomes(pool: Pool) -> None:
    lending = Lending(pool)
    ends = time.monotonic() + 2.0
    found = lending.score([line(number, 0.3) for number in range(40)], stop=lambda done: time.monotonic() > ends)
    assert lending.seconds < 3.5
    assert 1 <= len(found) < 20
    assert found == [(number, f"t{number}", float(number), None) for number in range(len(found))]
