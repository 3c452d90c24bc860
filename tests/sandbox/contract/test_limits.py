"""Tests of a grader's limits: a completion that exceeds one fails, and no other does."""

import time
from contextlib import suppress

import pytest

from gradebox.outcome import Outcome
from gradebox.schemas import Isolation
from sandbox.grading.channel import Ended
from sandbox.limits import PROCESSES, SCRATCH_BYTES, SCRATCH_FILES, SHARED_MEMORY_BYTES
from tests.backends import STARTED
from tests.sandbox.contract.conftest import TOGETHER, Grader, Loads

pytestmark = pytest.mark.sandbox
VARIANTS = STARTED

_ALONE = "held = []\nwhile True: held.append(bytearray(1 << 20))\n"
_FULL = """
answer = 0
try:
    with open("{path}", "wb", buffering=0) as file:
        while True: answer += file.write(bytes(65536))
except OSError as error:
    pass
"""


def came_to(outcome: Outcome) -> str:
    return outcome.error.kind if outcome.error else "scored"


def test_one_process_that_wants_too_much_memory(grader: Grader) -> None:
    outcomes = grader.score("", _ALONE, "")
    assert [came_to(outcome) for outcome in outcomes] == ["scored", "memory", "scored"]
    assert outcomes[1].error is not None
    assert "more than 256 MiB: use less memory, or raise `memory_mb`" in outcomes[1].error.message


def test_processes_that_want_too_much_memory_together(loads: Loads) -> None:
    """One of them is killed, or the whole sandbox if only the host can count their memory."""
    grader = loads(memory_mb=96, timeout_s=20.0)
    started = time.monotonic()
    with suppress(Ended):
        grader.score("", TOGETHER, "")
    assert grader.session.sandbox.ran_out_of_memory()
    assert time.monotonic() - started < 10


def test_memory_may_be_bounded_anew(grader: Grader) -> None:
    use = "held = bytearray({} << 20)\nfor at in range(0, len(held), 4096): held[at] = 1\nanswer = 1\n"
    grader.session.sandbox.allow_memory(300)
    assert grader.ask(use.format(150)) == 1
    grader.session.sandbox.allow_memory(100)
    assert not grader.session.sandbox.ran_out_of_memory()


@pytest.mark.parametrize(
    "start",
    ["os.fork() or time.sleep(30) or os._exit(0)", "Thread(target=time.sleep, args=(30,), daemon=True).start()"],
    ids=["processes", "threads"],
)
def test_processes_and_threads_have_an_end(start: str, grader: Grader) -> None:
    starts = f"""
import os, time
from threading import Thread
answer = 0
try:
    while answer < 500:
        {start}
        answer += 1
except (OSError, RuntimeError):
    pass
"""
    assert 1 <= grader.ask(starts) <= PROCESSES
    assert grader.ask("answer = 1") == 1


@pytest.mark.parametrize(("path", "size"), [("/tmp/full", SCRATCH_BYTES), ("/dev/shm/full", SHARED_MEMORY_BYTES)])
def test_scratch_has_an_end(path: str, size: int, grader: Grader) -> None:
    assert 0 < grader.ask(_FULL.format(path=path)) <= size
    assert grader.ask("import os\nanswer = len(os.listdir('/tmp')) + len(os.listdir('/dev/shm'))") == 0


def test_files_have_an_end(grader: Grader) -> None:
    makes = """
answer = 0
try:
    while answer < 100_000:
        open(f"/tmp/{answer}", "w").close()
        answer += 1
except OSError:
    pass
"""
    outcome = grader.score(makes)[0]
    assert came_to(outcome) in ("scored", "memory"), outcome
    if outcome.reason is not None:
        assert int(outcome.reason) <= 2 * SCRATCH_FILES
    assert grader.ask("import os\nanswer = len(os.listdir('/tmp'))") == 0


@pytest.mark.parametrize(
    "code", ["while True: pass", "import time; time.sleep(60)", "import os; os.kill(os.getpid(), 19)"]
)
def test_time_has_an_end(code: str, loads: Loads) -> None:
    started = time.monotonic()
    outcomes = loads(timeout_s=0.5).score("", code, "")
    assert [came_to(outcome) for outcome in outcomes] == ["scored", "timeout", "scored"]
    assert time.monotonic() - started < 8


_LATE = """
import os
import time

async def grade(thread):
    code = thread.completion()
    print("before")
    if code == "forged":
        print("Stack (most recent call first):\\n  File \\"grader.py\\", line 99999 in grade")
    if code == "closed":
        os.close(2)
    while code == "loop":
        pass
    if code:
        time.sleep(60)
    return 1.0
"""


@pytest.mark.parametrize("isolation", ["batch", "completion"])
def test_the_error_says_in_which_line_the_time_was_over(isolation: Isolation, loads: Loads) -> None:
    outcomes = loads(_LATE, isolation, timeout_s=0.5).score("loop", "sleep", "forged", "closed", "")
    assert [came_to(outcome) for outcome in outcomes] == [*["timeout"] * 4, "scored"]
    loop, sleep, forged, closed = (one.error.message.partition(". Look")[0] for one in outcomes if one.error)
    assert loop.startswith("`grade` took longer than 0.5 s. It was in line 1")
    assert sleep == "`grade` took longer than 0.5 s. It was in line 15, `time.sleep(60)`"
    assert forged == sleep
    assert closed == "`grade` took longer than 0.5 s"
    assert [outcome.stdout for outcome in outcomes[:2]] == ["before\n", "before\n"]
    assert [outcome.stdout for outcome in outcomes[3:]] == ["before\n", "before\n"]
