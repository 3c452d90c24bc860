"""Tests of graders that ask. sandbox/hostile/asking.toml has the completions that attack them."""

import hashlib
import json
from typing import Any

import pytest

from gradebox.outcome import Outcome
from gradebox.schemas import Isolation
from sandbox.grading.grading import Grading
from sandbox.grading.outcomes import Asked
from sandbox.grading.session import Session
from sandbox.guest.protocol.fields import MAX_REQUESTS
from tests.sandbox.contract.conftest import Grader

# Asking is the code of the guest, and asks come in records like others: `test_channel` tries those on every backend.
VARIANTS = ("bubblewrap",)

# Executes a completion before an honest ask, and returns its `answer` as the reason.
GRADER = """
import json
from gradebox import Model, Score

judge = Model("small-judge")


async def grade(thread):
    names = {"judge": judge}
    exec(thread.completion(), names)
    if "coroutine" in names:
        await names["coroutine"]
    reply = await judge.chat(f"Is it so? {thread.metadata['number']}")
    return Score(float(reply.text), reason=json.dumps(names.get("answer")))
"""


class Asking:
    """The grader in one sandbox; a test steps its runs."""

    def __init__(self, session: Session, source: str = GRADER, isolation: Isolation = "auto") -> None:
        grader = Grader(session).load(source, isolation)
        self.grading = Grading(lambda _: grader.session, lambda _, why: pytest.fail(f"the sandbox ended: {why}"))

    def step(self, *completions: str, answers: list[list[Any]] | None = None) -> list[Outcome | Asked]:
        """The result of one run of each completion."""
        threads = [{"completion": each, "metadata": {"number": n}} for n, each in enumerate(completions)]
        known = answers or [[] for _ in completions]
        lines = [json.dumps(thread).encode() for thread in threads]
        return self.grading.step(lines, [json.dumps(each).encode() for each in known], "contract@1")


def asked(run: Outcome | Asked) -> list[str]:
    """The first message of each ask of a run."""
    assert isinstance(run, Asked), run
    return [json.loads(request)["messages"][0]["content"] for request in run.requests]


def answer(run: Outcome | Asked, *texts: str) -> list[Any]:
    assert isinstance(run, Asked), run
    replies = [{"reply": {"text": text, "finish_reason": "stop", "usage": {}}} for text in texts]
    return [[hashlib.sha256(r).hexdigest(), reply] for r, reply in zip(run.requests, replies, strict=True)]


def test_large_asks_go_out_as_far_as_a_record_holds(session: Session) -> None:
    code = """
async def many():
    import asyncio
    await asyncio.gather(*(judge.chat(f"{n}" + "x" * 250_000) for n in range(50)))
coroutine = many()
"""
    (run,) = Asking(session).step(code)
    assert isinstance(run, Asked), run
    assert 0 < len(run.requests) < 50
    assert sum(map(len, run.requests)) <= MAX_REQUESTS


def test_answers_that_a_run_does_not_ask_for_are_an_error(session: Session) -> None:
    """The answers are those of another completion, or the grader is not deterministic. Neither gives a score."""
    asking = Asking(session)
    (run,) = asking.step("pass")
    assert asked(run) == ["Is it so? 0"]
    stray = [["00" * 32, {"reply": {"text": "1.0", "finish_reason": "", "usage": {}}}]]
    (outcome,) = asking.step("pass", answers=[answer(run, "1.0") + stray])
    assert isinstance(outcome, Outcome)
    assert outcome.error is not None and (outcome.error.kind, outcome.error.cause) == ("model", "not_repeated")


HEAD = """
import json
from gradebox import Model, ModelError, Score

judge = Model("small-judge")
ran = []


async def judged(thread):
    number = thread.metadata["number"]
    reply = await judge.chat(f"Is it so? {number}")
    return Score(float(reply.text), reason=json.dumps(ran))
"""

IN_A_ROW = """
async def grade(thread):
    ran.append(thread.metadata["number"])
    return await judged(thread)
"""

# Asks only in the first run of its process.
REMEMBERS = """
kept = {}

async def grade(thread):
    if not kept.get("asked"):
        kept["asked"] = True
        return await judged(thread)
    return 0.0
"""

AT_THE_END = """
import asyncio

async def grade(thread):
    ran.append(thread.metadata["number"])
    try:
        return await judged(thread)
    finally:
        await {}
"""
WAITS_AT_THE_END, SLEEPS_AT_THE_END = map(AT_THE_END.format, ['judge.chat("Was it so?")', "asyncio.sleep(0.1)"])

HOLDS_A_LOCK = """
import asyncio
lock = asyncio.Lock()

async def grade(thread):
    ran.append(thread.metadata["number"])
    async with lock:
        return await judged(thread)
"""

LEAVES_A_TASK = """
import asyncio

async def late():
    await asyncio.sleep(3600)

async def grade(thread):
    ran.append(len(asyncio.all_tasks()))
    task = asyncio.ensure_future(late())
    return await judged(thread)
"""

SETS_CONTEXT_VARIABLES = """
from decimal import getcontext, localcontext
from gradebox import once

async def grade(thread):
    ran.append(getcontext().prec)
    getcontext().prec = 3
    with localcontext():
        return Score(await once(lambda: judged(thread)), reason=json.dumps(ran))
"""

LEAVES_A_TIMER = """
import asyncio, time

async def grade(thread):
    ran.append(thread.metadata["number"])
    time.sleep(0.02)
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.01, ran.append, "late")
    return await judged(thread)
"""

CHANGES_THE_LOOP = """
import asyncio, time

def late(number):
    if ran[-1] != number:
        ran.append("late")

async def grade(thread):
    number = thread.metadata["number"]
    ran.append(number)
    time.sleep(0.02)
    await asyncio.create_task(asyncio.sleep(0))
    loop = asyncio.get_running_loop()
    try:
        score = await judged(thread)
        loop.add_writer(1, late, number)
        return score
    finally:
        loop.call_later(0.01, late, number)
        loop.set_task_factory(lambda *_, **__: None)
"""

SCHEDULES_A_CALLBACK_AGAIN_AND_AGAIN = """
import asyncio

def again():
    asyncio.get_running_loop().call_soon(again)
    if len(ran) < 100:
        ran.append("again")

async def grade(thread):
    ran.append(thread.metadata["number"])
    try:
        return await judged(thread)
    finally:
        again()
"""

BORROWS = """
import asyncio

free = [1]

async def borrowed():
    try:
        yield free.pop()
    finally:
        await asyncio.sleep(0)
        free.append(1)
"""

LEAVES_A_GENERATOR = f"""{BORROWS}
async def grade(thread):
    await asyncio.sleep(0)
    ran.append(thread.metadata["number"])
    generator = borrowed()
    await anext(generator)
    return await judged(thread)
"""

REPLACES_A_STREAM = """
import io, sys

async def grade(thread):
    ran.append(type(sys.stdout).__name__)
    sys.stdout = io.StringIO()
    return await judged(thread)
"""

NEVER_ENDS_ITS_TASKS = """
import asyncio

async def stubborn():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ran.append("still there")

async def grade(thread):
    ran.append(thread.metadata["number"])
    task = asyncio.ensure_future(stubborn())
    return await judged(thread)
"""


def scored(asking: Asking) -> list[tuple[float | None, Any]]:
    """Steps three completions to their ends with the answers 0.25, 0.5 and 0.75. Returns scores and reasons."""
    answers: list[list[Any]] = [[], [], []]
    while True:
        runs = asking.step("pass", "pass", "pass", answers=answers)
        for known, run, text in zip(answers, runs, ("0.25", "0.5", "0.75"), strict=True):
            if isinstance(run, Asked):
                known += answer(run, *[text] * len(run.requests))
        if all(isinstance(run, Outcome) for run in runs):
            return [(run.score, json.loads(run.reason or "null")) for run in runs if isinstance(run, Outcome)]


def test_runs_of_a_grader_that_runs_no_code_of_completions_share_a_process(session: Session) -> None:
    asking = Asking(session, HEAD + IN_A_ROW)
    assert session.loaded is not None and session.loaded.isolation == "batch"
    assert scored(asking) == [(0.25, [0, 1, 2, 0]), (0.5, [0, 1, 2, 0, 1]), (0.75, [0, 1, 2, 0, 1, 2])]


def test_in_completion_isolation_each_run_has_its_own(session: Session) -> None:
    asking = Asking(session, HEAD + IN_A_ROW, isolation="completion")
    assert scored(asking) == [(0.25, [0]), (0.5, [1]), (0.75, [2])]


@pytest.mark.parametrize(
    ("grader", "reasons"),
    [
        # A run that ends by itself leaves nothing, so the next run shares its process.
        pytest.param(WAITS_AT_THE_END, [[0, 1, 2, 0], [0, 1, 2, 0, 1], [0, 1, 2, 0, 1, 2]], id="asks when it is ended"),
        pytest.param(SLEEPS_AT_THE_END, [[0], [0, 1], [0, 1, 2]], id="sleeps when it is ended"),
        pytest.param(NEVER_ENDS_ITS_TASKS, [[0], [1], [2]], id="tasks that are not cancelled"),
        pytest.param(HOLDS_A_LOCK, [[0, 1, 2, 0], [0, 1, 2, 0, 1], [0, 1, 2, 0, 1, 2]], id="holds a lock"),
        pytest.param(SETS_CONTEXT_VARIABLES, [[28] * 4, [28] * 5, [28] * 6], id="context variables"),
        pytest.param(LEAVES_A_TIMER, [[0, 1, 2, 0], [0, 1, 2, 0, 1], [0, 1, 2, 0, 1, 2]], id="leaves a timer"),
        pytest.param(CHANGES_THE_LOOP, [[0, 1, 2, 0], [0, 1, 2, 0, 1], [0, 1, 2, 0, 1, 2]], id="changes the loop"),
        pytest.param(SCHEDULES_A_CALLBACK_AGAIN_AND_AGAIN, [[0], [1], [2]], id="schedules a callback again and again"),
        pytest.param(LEAVES_A_GENERATOR, [[0, 1, 2, 0], [0, 1, 2, 0, 1], [0, 1, 2, 0, 1, 2]], id="leaves a generator"),
        pytest.param(REPLACES_A_STREAM, [["TextIOWrapper"] * n for n in (4, 5, 6)], id="replaces a stream"),
        pytest.param(LEAVES_A_TASK, [[1] * 4, [1] * 5, [1] * 6], id="leaves a task"),
    ],
)
def test_what_a_run_leaves_half_done_is_in_no_later_run(session: Session, grader: str, reasons: list[Any]) -> None:
    assert scored(Asking(session, HEAD + grader)) == [*zip((0.25, 0.5, 0.75), reasons, strict=True)]


def test_a_generator_that_a_run_leaves_by_an_exception_ends_in_that_run(session: Session) -> None:
    grader = f"""{BORROWS}
async def grade(thread):
    score = await judged(thread)
    generator = borrowed()
    await anext(generator)
    if thread.metadata["number"] == 0:
        raise ValueError
    return score
"""
    assert scored(Asking(session, HEAD + grader)) == [(None, None), (0.5, []), (0.75, [])]


def test_what_earlier_runs_leave_keeps_none_from_asking_again(session: Session) -> None:
    """The run is repeated in a process without traces of the first. Completions of one step may still share state, if
    the grader's module keeps any.
    """
    asking = Asking(session, HEAD + REMEMBERS)
    (first,) = asking.step("pass")
    (done,) = asking.step("pass", answers=[answer(first, "0.25")])
    assert isinstance(done, Outcome)
    assert done.score == 0.25


def test_a_run_that_ends_its_process_costs_its_own_completion(session: Session) -> None:
    grader = """
import os

async def grade(thread):
    if thread.metadata["number"] == 1:
        print("gone")
        os._exit(3)
    return await judged(thread)
"""
    before, gone, behind = Asking(session, HEAD + grader).step("pass", "pass", "pass")
    assert isinstance(before, Asked)
    assert isinstance(behind, Asked)
    assert isinstance(gone, Outcome)
    assert gone.error is not None and (gone.error.kind, gone.stdout) == ("crash", "gone\n")


def test_large_asks_of_many_completions_go_out(session: Session) -> None:
    grader = """
async def grade(thread):
    print(thread.metadata["number"])
    await judge.chat("x" * 200_000 + str(thread.metadata["number"]))
"""
    runs = Asking(session, HEAD + grader).step(*["pass"] * 64)
    assert [asked(run)[0][-2:].strip("x") for run in runs] == [*map(str, range(64))]


@pytest.mark.parametrize("isolation", ["batch", "completion"])
def test_a_run_that_needs_an_event_loop_begins_with_the_thread_as_sent(session: Session, isolation: Isolation) -> None:
    source = """
from gradebox import Model

judge = Model("small-judge")


class Sleep:
    def __await__(self):
        yield


async def grade(thread):
    number = thread.metadata.pop("number", None)
    await Sleep()
    return -1.0 if number is None else float(number)
"""
    runs = Asking(session, source, isolation).step("a", "b", "c")
    assert [run.score for run in runs if isinstance(run, Outcome)] == [0.0, 1.0, 2.0]
