"""Tests of what the limits of the service do to sandboxes."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.sandbox

_SCORES = """
import json
from sandbox.errors import IsolationUnavailable
from sandbox.grader_source import GraderSource
from sandbox.pool.pool import open_pool
from sandbox.settings import SandboxSettings

try:
    with open_pool(SandboxSettings(backend="bubblewrap")) as pool:
        with pool.grading(GraderSource("async def grade(thread):\\n    return 0.5\\n")) as grading:
            print(grading.score(b'{"completion": ""}', 0, "g@1")[0].score)
except IsolationUnavailable as error:
    print(error)
"""


def scored_with(what: int, hard: int, first: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-c", first + _SCORES],
        cwd=Path(__file__).parents[3],
        preexec_fn=lambda: resource.setrlimit(what, (hard, hard)),
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("what", "hard", "told"),
    [
        (resource.RLIMIT_STACK, 4 << 20, "`ulimit -Hs` is 4096 here, and sandboxes need 8192: raise it"),
        (resource.RLIMIT_FSIZE, 1 << 20, "`ulimit -Hf` is 1024 here, and sandboxes need 8192: raise it"),
        (resource.RLIMIT_CPU, 60, "`ulimit -Ht` is 60 here, and sandboxes need 242: raise it"),
        (resource.RLIMIT_NOFILE, 100, "`ulimit -Hn` is 100 here, and sandboxes need 128: raise it"),
        (resource.RLIMIT_NPROC, 40, "`ulimit -Hu` is 40 here, and sandboxes need 67: raise it"),
    ],
)
def test_a_limit_that_graders_would_notice_is_named_at_the_start(
    what: int, hard: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that, each grader would be refused as one that ends its process."""
    monkeypatch.setenv("GRADEBOX_PROCESSES", "64")
    assert told in scored_with(what, hard)


@pytest.mark.parametrize(
    ("what", "hard"), [(resource.RLIMIT_SIGPENDING, 64), (resource.RLIMIT_CPU, 3600), (resource.RLIMIT_AS, 1 << 31)]
)
def test_a_limit_that_no_usual_grader_comes_near_may_be_lower(what: int, hard: int) -> None:
    assert scored_with(what, hard) == "0.5\n"


def test_fewer_processes_need_a_lower_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADEBOX_PROCESSES", "20")
    assert scored_with(resource.RLIMIT_NPROC, 23) == "0.5\n"


def test_a_backend_that_loads_no_grader_is_refused() -> None:
    """The limits of containers are those of their engine, which this process does not know."""
    unaware = "from sandbox.kernel import hard_limits\nhard_limits.check = lambda _: None\n"
    assert "bubblewrap cannot load a grader here: " in scored_with(resource.RLIMIT_STACK, 4 << 20, unaware)


def test_a_backend_that_grades_no_thread_is_refused() -> None:
    """Before Linux 5.14, the limit of processes counts those that the user of the service has outside of sandboxes."""
    too_few = "from sandbox import limits\nlimits.OWN_PROCESSES -= 33\n"
    told = scored_with(resource.RLIMIT_CORE, 0, too_few)
    assert "bubblewrap cannot build a sandbox that works here: a sandbox could not start a process" in told


def test_a_backend_that_grades_a_thread_wrong_is_refused() -> None:
    too_deep = (
        "from sandbox import limits\n"
        "usual = limits.limits_of\n"
        "limits.limits_of = lambda *given, **more: usual(*given, **more)._replace(depth=0)\n"
    )
    assert "bubblewrap cannot grade a thread here: the line is nested more than 0 levels" in scored_with(
        resource.RLIMIT_CORE, 0, too_deep
    )
