"""Tests of the five checks of a grader, in real sandboxes."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gradebox.schemas import CHECKS, Isolation, Report
from sandbox.errors import InfrastructureError, Stopped
from sandbox.grader_source import GraderSource
from sandbox.grading import five_checks, processor_watch
from sandbox.grading.channel import Stopping
from sandbox.grading.session import Session
from sandbox.kernel import usage
from sandbox.kernel.process_tree import family
from sandbox.pool.pool import Pool, open_pool
from sandbox.settings import SandboxSettings

pytestmark = pytest.mark.sandbox


@pytest.fixture(scope="module")
def impatient() -> Iterator[Pool]:
    """A pool that allows a module one second to load."""
    with open_pool(SandboxSettings(load_s=1.0, warm_sandboxes=1)) as pool:
        yield pool


def prove(pool: Pool, text: str, *threads: bytes, isolation: Isolation = "auto") -> Report:
    return pool.prove(GraderSource(text, isolation, timeout_s=2.0), list(threads) or None)


def test_a_good_grader_passes_all_five(pool: Pool) -> None:
    report = prove(pool, "async def grade(thread: StringThread) -> float:\n    return len(thread.completion()) / 4\n")
    assert report.valid
    assert [check.name for check in report.checks] == list(CHECKS)
    assert all(check.passed and check.duration_ms >= 0 for check in report.checks)
    assert report.checks[-1].message == "`grade` returned 0.25"
    assert report.warnings == []
    assert report.isolation == "batch"
    assert [outcome.score for outcome in report.outcomes] == [0.25]


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()", ["a thread"]),
        ("from concurrent.futures import ThreadPoolExecutor as T\nP = T(1)\nP.submit(len, '')", ["a thread"]),
        ("from concurrent.futures import ThreadPoolExecutor as T\nP = T(1)", []),
        ("import multiprocessing\nP = multiprocessing.Process(target=input)\nP.start()\nP.join()", []),
        ("import subprocess, sys\nP = subprocess.Popen([sys.executable, '-c', 'while True: pass'])", ["a process"]),
    ],
)
def test_a_warning_tells_of_what_does_not_outlive_the_module_body(pool: Pool, body: str, left: list[str]) -> None:
    report = prove(pool, f"{body}\nasync def grade(thread):\n    return 1.0\n")
    told = [warning.partition(" leaves ")[2].partition(" running")[0] for warning in report.warnings]
    assert [what for what in told if what in ("a thread", "a process")] == left


REFUSED = {
    "syntax": ("x = 1\nasync def grade(thread)\n    return 1\n", "syntax", 2, ""),
    "no grade": ("async def score(thread):\n    return 1\n", "structure", None, "grade"),
    "plain def": ("X = 1\n\ndef grade(thread):\n    return 1\n", "structure", 3, "async"),
    "two parameters": ("import re\nasync def grade(thread, other):\n    return 1\n", "signature", 2, "parameter"),
    "no parameter": ("async def grade():\n    return 1\n", "signature", 1, "parameter"),
    "at import": ("def f():\n    return {}['k']\nX = f()\nasync def grade(t): return 1\n", "execution", 2, "KeyError"),
    "a package": ("import numpy\nasync def grade(thread):\n    return 1\n", "execution", 1, "numpy"),
    "the guest's decoder": ("import msgspec\nasync def grade(thread):\n    return 1\n", "execution", 1, "msgspec"),
    "raises": ("async def grade(thread):\n    return 1 / 0\n", "test_run", 2, "ZeroDivisionError"),
    "None": ("async def grade(thread):\n    pass\n", "test_run", None, "None"),
    "NaN": ("async def grade(thread):\n    return float('nan')\n", "test_run", None, "nan"),
    "hangs": ("async def grade(thread):\n    while True: pass\n", "test_run", None, "timeout"),
    "exits": ("import os\nasync def grade(thread):\n    os._exit(0)\n", "test_run", None, "crash"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_first_check_that_fails_says_what_and_where(name: str, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "_pressure", lambda: (0.0, 0.0))  # regardless of other load
    text, check, line, told = REFUSED[name]
    report = prove(pool, text)
    assert not report.valid
    assert [made.name for made in report.checks] == list(CHECKS[: CHECKS.index(check) + 1])
    assert [made.passed for made in report.checks] == [True] * (len(report.checks) - 1) + [False]
    assert report.failed is not None and told in report.failed.message
    assert report.failed.line == line


@pytest.mark.parametrize("name", ["at import", "raises"])
def test_a_traceback_shows_the_graders_lines_and_none_of_ours(name: str, pool: Pool) -> None:
    failed = prove(pool, REFUSED[name][0]).failed
    assert failed is not None and failed.traceback is not None
    assert {"raises": "return 1 / 0", "at import": "return {}['k']"}[name] in failed.traceback
    for ours in ("guest", "child.py", "template.py", "_drive", "exec("):
        assert ours not in failed.traceback


def test_a_grader_that_disagrees_with_itself_is_warned_of(pool: Pool) -> None:
    text = "import time\nasync def grade(thread: StringThread) -> float:\n    return time.time_ns()\n"
    report = prove(pool, text)
    assert report.valid
    assert len(report.warnings) == 1
    assert "the same completion should always get the same score" in report.warnings[0]


def test_lacking_annotations_are_warned_of(pool: Pool) -> None:
    report = prove(pool, "\nasync def grade(thread):\n    return 1\n")
    assert report.valid
    assert [warning.split(":")[0] for warning in report.warnings] == ["line 2", "line 2"]


def test_a_call_of_exec_isolates_completions_unless_told_otherwise(pool: Pool) -> None:
    text = "async def grade(thread):\n    exec('x = 1')\n    return 1\n"
    assert prove(pool, text).isolation == "completion"
    assert prove(pool, text, isolation="batch").isolation == "batch"


def test_a_call_of_exec_in_a_module_of_the_author_does_so_too(pool: Pool) -> None:
    text = (
        "from gradebox.modules import add_modules\nadd_modules({'tools.py': 'def run(text):\\n    return {}(text)'})\n"
        "import tools\nasync def grade(thread):\n    return tools.run('4')\n"
    )
    assert prove(pool, text.replace("{}", "eval")).isolation == "completion"
    assert prove(pool, text.replace("{}", "float")).isolation == "batch"


_ADD = "from gradebox.modules import add_modules\n"
_NESTED = f"{_ADD}add_modules({{'tools.py': 'def run(t): return eval(t)'}})"


@pytest.mark.parametrize(
    "added",
    [
        "import gradebox.modules\nFILES = {'tools.py': TEXT}\ngradebox.modules.add_modules(FILES)",
        "from gradebox.modules import add_modules as add\nadd({'tools.py': TEXT})",
        "from gradebox.modules import add_modules\nadd_modules({'tools.py': TEXT})",
        "from gradebox.modules import add_modules\nif 1:\n    add_modules({'tools.py': 'def run(t): return eval(t)'})",
        "from gradebox.modules import add_modules\nadd_modules({'tools.py': b'def run(t): return eval(t)'})",
        f"{_NESTED}\nimport tools\nadd_modules({{'tools.py': ''}})",
        f"{_ADD}add_modules({{'first.py': {_NESTED!r}}})\nimport first",
    ],
)
def test_modules_that_are_not_seen_isolate_completions(pool: Pool, added: str) -> None:
    text = f"TEXT = 'def run(text):\\n    return ev' + 'al(text)'\n{added}\nimport tools\n"
    report = prove(pool, f"{text}async def grade(thread):\n    return tools.run('4')\n")
    assert report.valid
    assert report.isolation == "completion"


def test_sql_of_one_completion_does_not_change_the_score_of_the_next(pool: Pool) -> None:
    text = (
        "import sqlite3\nROWS = sqlite3.connect(':memory:')\nROWS.execute('CREATE TABLE t (x)')\n"
        "ROWS.execute('INSERT INTO t VALUES (1)')\n"
        "async def grade(thread):\n    return float(ROWS.execute(thread.completion()).fetchall() == [(1,)])\n"
    )
    lines = [b'{"completion": "SELECT x FROM t"}', b'{"completion": "DELETE FROM t"}'] * 2
    report = prove(pool, text, *lines)
    assert [outcome.score for outcome in report.outcomes] == [1.0, 0.0] * 2
    assert report.isolation == "completion"


_ANSWER = "async def grade(thread):\n    return float(thread.metadata['answer'] == thread.completion())\n"


def test_threads_of_the_caller_are_graded_and_told(pool: Pool) -> None:
    lines = [b'{"completion": "%d", "metadata": {"answer": "%d"}}' % (n, n % 30) for n in range(40)]
    report = prove(pool, _ANSWER, *lines)
    assert report.valid
    assert "40 threads" in report.checks[-1].message
    assert [outcome.score for outcome in report.outcomes] == [1.0] * 30 + [0.0] * 10
    assert [outcome.index for outcome in report.outcomes] == list(range(40))


def test_the_default_threads_lack_of_metadata_is_hinted_at(pool: Pool) -> None:
    failed = prove(pool, _ANSWER).failed
    assert failed is not None and "the default thread of the test run has no metadata" in failed.message.lower()


AT_IMPORT = {
    "endless": ("while True:\n    pass\n", "1 s"),
    "waits": ("import time\ntime.sleep(60)\n", "1 s"),
    "os._exit": ("import os\nos._exit(0)\n", "exit code 0"),
    "kills itself": ("import os\nos.kill(os.getpid(), 9)\n", "ended by SIGKILL"),
    "memory": ("x = bytearray(4 << 30)\n", "emory"),
    "memory in pieces": ("x = []\nwhile True:\n    x.append(bytearray(1 << 20))\n", "emory"),
}


@pytest.mark.parametrize("name", AT_IMPORT)
def test_a_module_without_end_fails_execution(name: str, impatient: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "_pressure", lambda: (0.0, 0.0))  # regardless of other load
    top, told = AT_IMPORT[name]
    started = time.monotonic()
    source = top + "async def grade(thread):\n    return 1\n"
    report = impatient.prove(GraderSource(source, memory_mb=64))  # used up long before the time is
    assert report.failed is not None and report.failed.name == "execution"
    assert report.failed.message
    assert told in report.failed.message
    assert time.monotonic() - started < 8
    assert prove(impatient, _ANSWER, b'{"completion": "1", "metadata": {"answer": "1"}}').valid


_ENDLESS = "async def grade(thread):\n    while True: pass\n"


@pytest.mark.alone
def test_a_test_run_has_one_limit_for_all_its_threads(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(five_checks, "TEST_RUN_S", 1.0)
    began = time.monotonic()
    report = pool.prove(GraderSource(_ENDLESS, timeout_s=0.4), [b'{"completion": ""}'] * 16)
    assert time.monotonic() - began < 2.5
    assert report.failed is not None
    assert "the test run took longer than 1 s, in which 2 of 16 threads were graded" in report.failed.message


@pytest.mark.alone
def test_a_second_run_without_time_is_a_warning(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(five_checks, "TEST_RUN_S", 1.0)
    slow = "import time\nasync def grade(thread):\n    time.sleep(0.3)\n    return 1\n"
    report = pool.prove(GraderSource(slow, timeout_s=0.9), [b'{"completion": ""}'] * 2)
    assert report.valid, report.failed
    assert len(report.outcomes) == 2
    assert report.warnings[-1].endswith("of 2 threads twice: send fewer, or shorter ones")
    monkeypatch.setattr(five_checks, "TEST_RUN_S", 0.1)
    report = pool.prove(GraderSource(slow, timeout_s=0.9), [b'{"completion": ""}'])
    assert report.valid, report.failed  # one completion may take longer than a test run usually has


@pytest.mark.alone
def test_a_busy_machine_makes_no_score_of_a_second_run_differ(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(five_checks, "TEST_RUN_S", 1.8)
    monkeypatch.setattr(processor_watch, "starved", lambda *_: usage.Starved(0.2, 1.0))
    # The first run ends when its last thread has waited for this moment. In the second, the first thread has had its
    # timeout when the time is over.
    text = (
        f"import time\nSLOW_FROM = {time.time() + 0.6}\nasync def grade(thread):\n"
        "    if time.time() > SLOW_FROM: time.sleep(9)\n"
        "    if thread.completion() == 'last': time.sleep(max(0, SLOW_FROM - time.time()))\n    return 1\n"
    )
    lines = [b'{"completion": ""}', b'{"completion": ""}', b'{"completion": "last"}']
    with pytest.raises(InfrastructureError, match=r"thread 0 of a test run: .* since the machine was busy"):
        pool.prove(GraderSource(text, "batch", timeout_s=0.8), lines)


@pytest.mark.parametrize("where", ["grade", "module"])
def test_a_proof_may_be_stopped(where: str, pool: Pool) -> None:
    text = _ENDLESS if where == "grade" else "while True: pass\nasync def grade(thread):\n    return 1\n"
    began = time.monotonic()
    with pytest.raises(Stopped):
        pool.prove(GraderSource(text, timeout_s=30.0), None, lambda: time.monotonic() - began > 0.5)
    assert time.monotonic() - began < 8  # a module body has ten seconds


_NAPS = "import time\ntime.sleep(0.5)\nasync def grade(thread):\n    time.sleep(0.3)\n    return 1\n"


@pytest.mark.parametrize(
    ("place", "number", "delays"),
    [
        (0, signal.SIGKILL, (0.25, 0.65)),  # the first while it loads, the second while it grades
        (1, signal.SIGKILL, (0.25,)),
        (1, signal.SIGTERM, (0.25,)),
    ],
    ids=["pid 1", "what loads", "what loads, asked to end"],
)
def test_a_process_that_is_ended_from_outside_fails_no_check(
    place: int, number: int, delays: tuple[float, ...], pool: Pool
) -> None:
    """The kernel's OOM killer may choose any, and what stops a service may send its signal to all processes."""
    with _disturbed(pool, lambda pids: os.kill(pids[place], number), *delays) as disturbed:
        assert prove(pool, f"{_NAPS}# {place} {number}").valid
    assert len(disturbed) == len(delays)


@pytest.mark.parametrize("first", [0, 1], ids=["all processes", "what loads the grader"])
def test_a_pause_while_a_grader_loads_fails_no_check(first: int, impatient: Pool) -> None:
    def pause(pids: list[int]) -> None:
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in pids[first:]:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            time.sleep(1.5 * (number == signal.SIGSTOP))

    with _disturbed(impatient, pause, 0.25) as disturbed:
        assert prove(impatient, f"{_NAPS}# {first}").valid
    assert len(disturbed) == 1


@contextmanager
def _disturbed(pool: Pool, disturb: Callable[[list[int]], None], *delays: float) -> Iterator[list[threading.Timer]]:
    """Calls `disturb` with the processes of the first sandboxes that are taken, so many seconds after each is."""
    timers: list[threading.Timer] = []
    take = pool._ready.take_empty

    def taken(began: float, stopping: Stopping | None, environment: Path | None = None) -> Session:
        session = take(began, stopping)
        for delay in delays[len(timers) : len(timers) + 1]:
            timers.append(threading.Timer(delay, lambda: disturb(family(session.sandbox.pid))))
            timers[-1].start()
        return session

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pool._ready, "take_empty", taken)
        yield timers
    for timer in timers:
        timer.join()


def test_a_slow_load_on_a_busy_machine_fails_no_check(impatient: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor_watch, "starved", lambda *_: usage.Starved(0.2, 1.0))
    with pytest.raises(InfrastructureError, match=r"a processor for 0\.2 of 1\.0 s, since the machine was busy"):
        prove(impatient, "while True: pass\n" + _ANSWER)


def test_a_lack_of_sandboxes_fails_no_check(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is raised as an error of the service, because a report would be wrong."""

    def taken(began: float, stopping: Stopping | None, environment: Path | None = None) -> Session:
        raise InfrastructureError("no sandbox could be started")

    killed = b'{"completion": "kill"}'
    text = (
        "import os, signal\nasync def grade(thread):\n"
        "    if thread.completion() == 'kill': os.kill(os.getppid(), signal.SIGKILL)\n    return 1\n"
    )
    with pool.grading(GraderSource(text, "completion")) as grading:
        assert grading.load().isolation == "completion"
        monkeypatch.setattr(pool._ready, "take_empty", taken)
        with pytest.raises(InfrastructureError):
            five_checks.prove(grading, [b'{"completion": "x"}', killed, killed])
