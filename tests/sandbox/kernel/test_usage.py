"""Tests that a timeout for lack of a processor is distinguished from other timeouts."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from gradebox.outcome import Outcome
from gradebox.schemas import Isolation
from sandbox.errors import InfrastructureError
from sandbox.grader_source import GraderSource
from sandbox.grading import processor_watch
from sandbox.kernel import usage
from sandbox.kernel.usage import ProcessorUse, Starved, measure, starved, wants_processor
from sandbox.pool.pool import Pool
from tests.sandbox.scoring import BOTH, line, score

pytestmark = pytest.mark.sandbox

_WORKS = """
import time
async def grade(thread):
    if thread.completion() == "work":
        until = time.process_time() + 1.0
        while time.process_time() < until: pass
    if thread.completion() == "sleep": time.sleep(9)
    if thread.completion() == "loop":
        while True: pass
    return 1.0
"""


def usage_of(at: float, processor_s: float, pressure_s: float | None, load: float = 0.0) -> ProcessorUse:
    return ProcessorUse(at, processor_s, pressure_s, load)


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (usage_of(15.0, 0.5, 9.0), Starved(0.5, 5.0)),  # others waited for 4 of 5 s
        (usage_of(15.0, 0.5, 5.5), None),  # for half a second, so it slept
        (usage_of(15.0, 3.0, 9.0), None),  # it had a processor for more than half
        (usage_of(15.0, 0.5, 5.0, 0.9), Starved(0.5, 5.0)),  # pressure that is not updated yet: by the load
        (usage_of(15.0, 0.5, None, 1.0), Starved(0.5, 5.0)),  # a kernel without pressure: by the load
        (usage_of(15.0, 0.5, None, 0.0), None),
        (usage_of(10.0, 0.0, 5.0, 1.0), None),
    ],
)
def test_too_little_of_a_processor_on_a_busy_machine(after: ProcessorUse, found: Starved | None) -> None:
    assert starved(usage_of(10.0, 0.0, 5.0), after, 0.9) == found
    assert starved(usage_of(10.0, 0.0, 5.0), after, 0.1) is None  # it rarely wanted a processor


def test_processes_that_end_while_they_are_looked_at_are_no_error() -> None:
    forks = "import os\nwhile True:\n    if not (pid := os.fork()): os._exit(0)\n    os.waitpid(pid, 0)"
    with subprocess.Popen([sys.executable, "-c", forks]) as parent:
        until = time.monotonic() + 1
        try:
            while time.monotonic() < until:
                wants_processor(parent.pid)
        finally:
            parent.kill()


def test_a_process_may_have_any_bytes_as_its_name() -> None:
    named = "import ctypes\nctypes.CDLL(None).prctl(15, b'\\xff) \\xfe', 0, 0, 0)\nprint(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", named], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            while measure(process.pid).processor_s < 0.05:
                time.sleep(0.02)
            assert wants_processor(os.getpid())
        finally:
            process.kill()


def test_the_time_of_processes_that_have_ended_counts() -> None:
    command = "import subprocess, sys, time; subprocess.run([sys.executable, '-c', sys.argv[1]]); time.sleep(9)"
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    with subprocess.Popen([sys.executable, "-c", command, burn]) as process:
        while measure(process.pid).processor_s < 0.5:
            time.sleep(0.05)
        process.kill()


@contextmanager
def hogs(seconds: float) -> Iterator[None]:
    """Keeps all processors busy, with processes in separate sessions, because the kernel may share by session."""
    code = f"import time\nends = time.time() + {seconds}\nwhile time.time() < ends: pass"
    number = 8 * len(os.sched_getaffinity(0))
    started = [subprocess.Popen([sys.executable, "-c", code], start_new_session=True) for _ in range(number)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def kinds(outcomes: list[Outcome]) -> list[tuple[str, bool] | float | None]:
    return [(one.error.kind, one.error.retryable) if one.error else one.score for one in outcomes]


@pytest.mark.alone  # keeps all processors busy
def test_a_completion_that_got_no_processor_is_graded_again(pool: Pool) -> None:
    payload = b"\n".join([line("x")] * 3 + [line("work")] + [line("x")] * 2)
    batch, completion = GraderSource(_WORKS, "batch", timeout_s=3.5), GraderSource(_WORKS, "completion", timeout_s=3.5)
    with pool.grading(batch) as one, pool.grading(completion) as other, ThreadPoolExecutor() as both:
        assert [grading.load().isolation for grading in (one, other)] == ["batch", "completion"]
        with hogs(4.5):
            scored = list(both.map(lambda grading: grading.score(payload, 7, "g@1"), (one, other)))
    for outcomes in scored:
        assert kinds(outcomes) == [1.0] * 6
        assert [outcome.index for outcome in outcomes] == list(range(7, 13))


@BOTH
def test_one_without_a_processor_is_retryable(
    isolation: Isolation, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor_watch, "starved", lambda before, after, wanted: Starved(0.25, 1.0))
    began = time.monotonic()
    outcomes = score(pool, GraderSource(_WORKS, isolation, timeout_s=0.4), [line("x"), line("work"), line("x")])
    assert 1.2 < time.monotonic() - began < 4
    assert kinds(outcomes) == [1.0, ("timeout", True), 1.0]
    assert "it got a processor for 0.2 of 1.0 s, since the machine was busy" in str(outcomes[1].error)


def test_a_test_run_that_got_no_processor_fails_no_check(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor_watch, "starved", lambda before, after, wanted: Starved(0.25, 1.0))
    with pytest.raises(InfrastructureError, match="since the machine was busy"):
        pool.prove(GraderSource(_WORKS, timeout_s=0.3), [line("work")])


@BOTH
@pytest.mark.parametrize("completion", ["sleep", "loop"])
def test_one_that_sleeps_or_has_the_processor_is_told_at_once(
    completion: str, isolation: Isolation, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pressure = 0.0 if completion == "loop" else 1.0  # `loop`: regardless of other load; `sleep`: also on a busy machine
    monkeypatch.setattr(usage, "_pressure", lambda: (0.0, pressure))
    began = time.monotonic()
    outcomes = score(pool, GraderSource(_WORKS, isolation, timeout_s=0.5), [line(completion)])
    assert kinds(outcomes) == [("timeout", False)]
    assert time.monotonic() - began < 6  # `sleep` takes nine seconds, and `loop` does not end
