"""Tests that what one completion leaves in its process, in batch isolation, costs no other its score."""

from textwrap import indent

import pytest

from sandbox.grader_source import GraderSource
from sandbox.pool.pool import Pool
from tests.sandbox.scoring import line, score

pytestmark = pytest.mark.sandbox

_HEAD = """
import ast, decimal, io, os, signal, sys, tempfile, threading, time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from multiprocessing.pool import Pool, ThreadPool

POOL = ThreadPoolExecutor(1)
threads, processes = (cache(lambda kind=kind: kind(1)) for kind in (ThreadPool, Pool))

def refuses(number, function, *arguments):
    try:
        function(*arguments)
    except number:
        return True

def late(*_):
    raise TimeoutError

def works():
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        sum(range(10_000))
    return True

for number in (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF):
    signal.signal(number, late)
"""
# What a completion leaves, and what is true in the next one unless that has been left.
LEFT = {
    "a thread": ("threading.Thread(target=time.sleep, args=(60,)).start()", "threading.active_count() == 1"),
    "a busy pool": ("POOL.submit(time.sleep, 60)", "POOL.submit(int, '1').result(1) == 1"),
    "a busy pool of others": (
        "threads().map_async(time.sleep, [60])",
        "threads().apply_async(int).get(1) == 0",
    ),
    "a busy process": ("processes().apply_async(time.sleep, (60,))", "processes().apply_async(int).get(1) == 0"),
    **{
        f"an alarm, {timer}": (f"signal.setitimer(signal.ITIMER_{timer}, 0.02)", "works()")
        for timer in ("REAL", "VIRTUAL", "PROF")
    },
    "a precision": ("decimal.getcontext().prec = 3", "1 / decimal.Decimal(3) != decimal.Decimal('0.333')"),
    "another input": ("sys.stdin = io.StringIO('1')", "sys.stdin.read() == ''"),
    "descriptors": ("for _ in range(45):\n    os.dup(1)\ntime.sleep(0.001)", "os.dup(1) < 45"),
    "all descriptors": ("while not refuses(OSError, os.dup, 1):\n    pass", "tempfile.TemporaryFile()"),
    "a large file": ("open('/tmp/left', 'w').write('x' * (6 << 20))", "not os.path.exists('/tmp/left')"),
}

LEFT_IN_LOOP = {
    "a busy executor": (
        "for _ in range(8):\n    asyncio.get_running_loop().run_in_executor(None, time.sleep, 60)",
        "await asyncio.wait_for(asyncio.to_thread(int), 1) == 0",
    ),
    "a handler of the loop": (
        "asyncio.get_running_loop().add_signal_handler(signal.SIGALRM, print)",
        "not asyncio.get_running_loop().remove_signal_handler(signal.SIGALRM)",
    ),
}


def _source(head: str, cases: dict[str, tuple[str, str]]) -> str:
    lines = [_HEAD, head, "async def grade(thread):", "    name, leaves = thread.metadata.values()"]
    for name, (left, check) in cases.items():
        lines += [f"    if name == {name!r} and leaves:", indent(left, " " * 8)]
        lines += [f"    if name == {name!r} and not leaves:", f"        assert {check}, 'left'"]
    return "\n".join([*lines, "    return 1.0"])


@pytest.mark.parametrize(
    ("head", "cases"), [("", LEFT), ("import asyncio", LEFT | LEFT_IN_LOOP)], ids=["", "in a loop"]
)
def test_what_one_completion_leaves_is_there_in_no_other(
    head: str, cases: dict[str, tuple[str, str]], pool: Pool
) -> None:
    places = [(name, leaves) for name in cases for leaves in (False, True, False, False)]
    lines = [line("", metadata={"name": name, "leaves": leaves}) for name, leaves in places]
    outcomes = score(pool, GraderSource(_source(head, cases), "batch"), lines)
    failed = {
        place: outcome.error.message
        for place, outcome in zip(places, outcomes, strict=True)
        if outcome.error is not None
    }
    assert failed == {}


def test_pools_that_wait_stay(pool: Pool) -> None:
    source = """
import multiprocessing, os, time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import Pool, ThreadPool
THREADS, KEPT = ThreadPoolExecutor(4), []
async def grade(thread):
    if not KEPT:
        KEPT.extend([Pool(1), ThreadPool(1)])
    assert KEPT[0].apply(int) == KEPT[1].apply(int) == THREADS.submit(int).result() == 0
    return os.getpid()
"""
    assert len({outcome.score for outcome in score(pool, GraderSource(source, "batch"), [line("")] * 4)}) == 1
