"""The five checks of a grader, made in a sandbox."""

import time
from collections.abc import Iterator

import pytest

from gradebox.schemas import CHECKS, Isolation, Report
from sandbox.grader_source import GraderSource
from sandbox.pool import Pool, open_pool
from sandbox.settings import SandboxSettings

pytestmark = pytest.mark.sandbox


@pytest.fixture(scope="module")
def impatient() -> Iterator[Pool]:
    """Sandboxes that give a module one second."""
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
    assert report.outcomes is not None
    assert [outcome["score"] for outcome in report.outcomes] == [0.25]


REFUSED = {
    "syntax": ("x = 1\nasync def grade(thread)\n    return 1\n", "syntax", 2, ""),
    "no grade": ("async def score(thread):\n    return 1\n", "structure", None, "grade"),
    "plain def": ("X = 1\n\ndef grade(thread):\n    return 1\n", "structure", 3, "async"),
    "two parameters": ("import re\nasync def grade(thread, other):\n    return 1\n", "signature", 2, "parameter"),
    "no parameter": ("async def grade():\n    return 1\n", "signature", 1, "parameter"),
    "raises at import": (
        "def f():\n    return {}['k']\nX = f()\nasync def grade(t):\n    return 1\n",
        "execution",
        2,
        "KeyError",
    ),
    "a package": ("import numpy\nasync def grade(thread):\n    return 1\n", "execution", 1, "numpy"),
    "the guest's parser": ("import jiter\nasync def grade(thread):\n    return 1\n", "execution", 1, "jiter"),
    "raises": ("async def grade(thread):\n    return 1 / 0\n", "test_run", None, "ZeroDivisionError"),
    "None": ("async def grade(thread):\n    pass\n", "test_run", None, "None"),
    "NaN": ("async def grade(thread):\n    return float('nan')\n", "test_run", None, "nan"),
    "hangs": ("async def grade(thread):\n    while True: pass\n", "test_run", None, "timeout"),
    "exits": ("import os\nasync def grade(thread):\n    os._exit(0)\n", "test_run", None, "crash"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_first_check_that_fails_says_what_and_where(name: str, pool: Pool) -> None:
    text, check, line, told = REFUSED[name]
    report = prove(pool, text)
    assert not report.valid
    assert [made.name for made in report.checks] == list(CHECKS[: CHECKS.index(check) + 1])
    assert [made.passed for made in report.checks] == [True] * (len(report.checks) - 1) + [False]
    assert report.failed is not None
    assert told in report.failed.message
    assert report.failed.line == line


@pytest.mark.parametrize("name", ["raises at import", "raises"])
def test_a_traceback_shows_the_graders_lines_and_none_of_ours(name: str, pool: Pool) -> None:
    failed = prove(pool, REFUSED[name][0]).failed
    assert failed is not None
    assert failed.traceback is not None
    assert {"raises": "return 1 / 0", "raises at import": "return {}['k']"}[name] in failed.traceback
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


@pytest.mark.parametrize(
    ("top", "expected"),
    [("import re", "batch"), ("import subprocess", "completion"), ("import pickle", "completion")],
)
def test_auto_isolates_completions_where_the_source_can_run_code(top: str, expected: str, pool: Pool) -> None:
    assert prove(pool, f"{top}\nasync def grade(thread):\n    return 1\n").isolation == expected


def test_a_call_of_exec_isolates_completions_unless_told_otherwise(pool: Pool) -> None:
    text = "async def grade(thread):\n    exec('x = 1')\n    return 1\n"
    assert prove(pool, text).isolation == "completion"
    assert prove(pool, text, isolation="batch").isolation == "batch"


_ANSWER = "async def grade(thread):\n    return float(thread.metadata['answer'] == thread.completion())\n"


def test_threads_of_the_caller_are_graded_and_told(pool: Pool) -> None:
    lines = [b'{"completion": "%d", "metadata": {"answer": "%d"}}' % (n, n % 30) for n in range(40)]
    report = prove(pool, _ANSWER, *lines)
    assert report.valid
    assert "40 threads" in report.checks[-1].message
    assert report.outcomes is not None
    assert [outcome["score"] for outcome in report.outcomes] == [1.0] * 30 + [0.0] * 10
    assert [outcome["index"] for outcome in report.outcomes] == list(range(40))


def test_a_thread_that_gets_no_score_is_named(pool: Pool) -> None:
    report = prove(pool, _ANSWER, b'{"completion": "1", "metadata": {"answer": "1"}}', b'{"completion": "2"}')
    assert report.failed is not None
    assert "on thread 1 (exception): KeyError" in report.failed.message


def test_the_default_threads_lack_of_metadata_is_hinted_at(pool: Pool) -> None:
    failed = prove(pool, _ANSWER).failed
    assert failed is not None
    assert "the default thread of the test run has no metadata" in failed.message.lower()


AT_IMPORT = {
    "endless": ("while True:\n    pass\n", "1 s"),
    "os._exit": ("import os\nos._exit(0)\n", "exit code 0"),
    "memory": ("x = bytearray(4 << 30)\n", "emory"),
    "memory in pieces": ("x = []\nwhile True:\n    x.append(bytearray(1 << 20))\n", "emory"),
}


@pytest.mark.parametrize("name", AT_IMPORT)
def test_a_module_that_does_not_come_to_its_end_fails_execution(name: str, impatient: Pool) -> None:
    top, told = AT_IMPORT[name]
    started = time.monotonic()
    report = prove(impatient, top + "async def grade(thread):\n    return 1\n")
    assert report.failed is not None
    assert report.failed.name == "execution"
    assert report.failed.message
    assert told in report.failed.message
    assert time.monotonic() - started < 8
    assert prove(impatient, _ANSWER, b'{"completion": "1", "metadata": {"answer": "1"}}').valid
