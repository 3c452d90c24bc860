"""Tests of graders that wait by a module that imports asyncio late."""

import pytest

from gradebox.outcome import Outcome
from gradebox.schemas import Isolation
from sandbox.grader_source import GraderSource
from sandbox.pool.pool import Pool
from tests.sandbox.scoring import BOTH, kinds, line, score

pytestmark = pytest.mark.sandbox

# As a package does that imports asyncio in a function; sources that mention asyncio have a loop from the start.
HEAD = """
def sleep():
    import unittest.mock

    return getattr(unittest.mock, "asyn" + "cio").sleep(0.001)


def gathered():
    import unittest.mock

    gather = getattr(unittest.mock, "asyn" + "cio").gather
    return eval("gather(one)", {{"gather": gather, "one": sleep()}})  # without a `__name__`


async def waits(thread):
    {wait}

"""
GRADE = """
async def grade(thread):
    print("seen")
    try:
        await waits(thread)
    except Exception:
        print("failed")
        return 0.0
    return 1.0
"""
# As a program that the grader starts, it writes to no stream of Python.
WRITES = """
import os


def print(text):
    os.write(1, f"{{text}}\\n".encode())


"""
ASKS = 'from gradebox import Model\n\njudge = Model("m")\n'
LINE = line("a")


@BOTH
@pytest.mark.parametrize("asks", ["", ASKS])
@pytest.mark.parametrize(("wait", "head"), [("sleep", HEAD), ("gathered", WRITES + HEAD)])
def test_an_error_for_lack_of_an_event_loop_is_no_score_although_the_grader_catches_it(
    pool: Pool, isolation: Isolation, asks: str, wait: str, head: str
) -> None:
    source = asks + head.format(wait=f"await {wait}()") + GRADE
    with pool.grading(GraderSource(source, isolation)) as grading:
        runs = grading.step([LINE] * 3, [b"[]"] * 3, "g@1") if asks else grading.score(b"\n".join([LINE] * 3), 0, "g@1")
    assert [(run.score, run.stdout) for run in runs if isinstance(run, Outcome)] == [(1.0, "seen\n")] * 3


def test_an_error_of_another_kind_is_the_graders_own(pool: Pool) -> None:
    source = HEAD.format(wait='raise RuntimeError("no running event loop")') + GRADE
    assert kinds(score(pool, GraderSource(source), [LINE])) == [0.0]


def test_a_completion_that_needs_a_loop_leaves_others_without_one(pool: Pool) -> None:
    source = """import asyncio
async def half():
    return 0.5
async def grade(thread):
    if thread.completion() == "a":
        await asyncio.sleep(0.001)
        return 1.0
    try:
        return asyncio.run(half())
    except RuntimeError:
        return 0.0
"""
    assert kinds(score(pool, GraderSource(source, "batch"), [LINE, line("b"), LINE, LINE])) == [1.0, 0.5, 1.0, 1.0]
