"""Lines go in and records come out, whole and in order, however many and however large."""

import time
from collections.abc import Callable

import pytest

from sandbox.guest.chunk import SHARED_BYTES
from tests.sandbox.contract.conftest import Grader

pytestmark = pytest.mark.sandbox
BOTH = pytest.mark.parametrize("isolation", ["batch", "completion"])
_LENGTH = "async def grade(thread):\n    return len(thread.completion())\n"
_TALKS = """
from gradebox import Score
async def grade(thread):
    print("p" * 4000)
    return Score(len(thread.completion()), reason="r" * 4000)
"""


@BOTH
def test_many_lines(isolation: str, loads: Callable[..., Grader]) -> None:
    lengths = [number % 97 for number in range(300 if isolation == "completion" else 5000)]
    outcomes = loads(_LENGTH, isolation=isolation).score(*("x" * length for length in lengths))
    assert [outcome.score for outcome in outcomes] == lengths


@BOTH
def test_more_than_the_shared_memory_holds(isolation: str, loads: Callable[..., Grader]) -> None:
    grader = loads(_LENGTH, isolation=isolation)
    lengths = [SHARED_BYTES // 3] * 4 + [7]
    assert [outcome.score for outcome in grader.score(*("x" * length for length in lengths))] == lengths
    assert grader.score("abc")[0].score == 3.0


@BOTH
def test_outcomes_that_say_much(isolation: str, loads: Callable[..., Grader]) -> None:
    outcomes = loads(_TALKS, isolation=isolation).score(*("x" * number for number in range(200)))
    assert [outcome.score for outcome in outcomes] == list(range(200))
    assert {outcome.reason for outcome in outcomes} == {"r" * 4000}
    assert {len(outcome.stdout or "") for outcome in outcomes} == {4001}


def test_bytes_of_every_kind(loads: Callable[..., Grader]) -> None:
    text = "\x00\x1a\n\r\x11\x13\x03\x04 é ☃ 😀 \x7f"
    source = f"async def grade(thread):\n    return thread.completion() == {text!a}\n"
    assert loads(source, isolation="batch").score(text, "x")[0].score == 1.0


def test_one_batch_after_the_other(loads: Callable[..., Grader]) -> None:
    grader = loads(_LENGTH, isolation="batch")
    for number in range(20):
        assert grader.score("x" * number)[0].score == number
        grader.session.reset()
        grader.session.settle()


def test_where_memory_is_shared_nobody_inside_can_write_it(loads: Callable[..., Grader]) -> None:
    """A container has a /proc, where what is open for reading can be opened again."""
    grader = loads(f"SIZE = {SHARED_BYTES}\n{_REOPENS}", isolation="batch")
    outcome = grader.score("x")[0]
    assert outcome.reason == "[]"


_REOPENS = """
import json, os, stat
from gradebox import Score

def attempts():
    yield from (f"/proc/self/fd/{number}" for number in range(128))
    yield from (f"/proc/1/fd/{number}" for number in range(32))
    if os.path.exists("/proc/self/map_files"):
        try:
            yield from ("/proc/self/map_files/" + name for name in os.listdir("/proc/self/map_files"))
        except OSError:
            pass

async def grade(thread):
    opened = []
    for path in attempts():
        try:
            descriptor = os.open(path, os.O_RDWR)
        except OSError:
            continue
        status = os.fstat(descriptor)
        for harm in (lambda: os.pwrite(descriptor, b"forged", 0), lambda: os.ftruncate(descriptor, 0)):
            if stat.S_ISREG(status.st_mode) and status.st_size == SIZE:
                try:
                    harm()
                    opened.append(path)
                except OSError:
                    pass
        os.close(descriptor)
    return Score(1.0, reason=json.dumps(opened))
"""


_HOLDS = """
import gc
gc.unfreeze()
from sandbox.guest.single import Single
held = [bytes(found._message) for found in gc.get_objects() if isinstance(found, Single)]
answer = [len(held), any(b"sec" + b"ret" in part for part in held), any(b"answer" in part for part in held)]
"""


@pytest.mark.parametrize("size", [10, 30_000, 3_000_000])
def test_nothing_of_a_line_is_left_where_the_next_one_comes(size: int, grader: Grader) -> None:
    grader.score("#" + "secret" * (size // 6))
    assert grader.ask(_HOLDS) == [1, False, True]


def test_a_module_body_may_close_what_it_finds_open(loads: Callable[..., Grader]) -> None:
    grader = loads(f"import os\nos.close(4)\n{_LENGTH}", isolation="batch")
    for _ in range(2):
        assert [outcome.score for outcome in grader.score("abc", "ab")] == [3.0, 2.0]
        grader.session.reset()
        grader.session.settle()


def test_a_grader_that_takes_its_own_descriptors_away_fails_at_once(loads: Callable[..., Grader]) -> None:
    body = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))\n"
    started = time.monotonic()
    (outcome,) = loads(body + _LENGTH, isolation="batch", timeout_s=20.0).score("a")
    assert outcome.error is not None
    assert outcome.error.kind == "crash"
    assert time.monotonic() - started < 20
