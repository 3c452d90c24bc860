"""Graders that ask, and what completions that work against them can do with it: on every backend."""

import hashlib
import json
from typing import Any

import pytest

from gradebox.asks.asking import MOST_ASKS
from gradebox.outcome import Outcome
from sandbox.grading import Grading
from sandbox.guest.protocol.frames import MAX_REQUESTS
from sandbox.outcomes import Asked
from sandbox.session import Session
from tests.sandbox.contract.conftest import Grader

# Runs what a completion says in front of an honest ask, and tells what it calls `answer`.
GRADER = """
import json
import sys
from gradebox import Model, Score
from gradebox.asks import asking

judge = Model("small-judge")


async def grade(thread):
    names = {"judge": judge, "asking": asking, "sys": sys}
    exec(thread.completion(), names)
    if "coroutine" in names:
        await names["coroutine"]
    reply = await judge.chat(f"Is it so? {thread.metadata['number']}")
    return Score(float(reply.text), reason=json.dumps(names.get("answer")))
"""


class Asking:
    """The grader in one sandbox, whose runs a test steps."""

    def __init__(self, session: Session, source: str = GRADER, **limits: Any) -> None:
        grader = Grader(session).load(source, "auto", **limits)
        self.grading = Grading(lambda _: grader.session, lambda _, why: pytest.fail(f"the sandbox ended: {why}"))

    def step(self, *completions: str, answers: list[list[Any]] | None = None) -> list[Outcome | Asked]:
        """What one run of each comes to."""
        threads = [{"completion": each, "metadata": {"number": n}} for n, each in enumerate(completions)]
        known = answers or [[] for _ in completions]
        lines = [json.dumps(thread).encode() for thread in threads]
        return self.grading.step(lines, [json.dumps(each).encode() for each in known], "contract@1")


def asked(run: Outcome | Asked) -> list[str]:
    """The messages of what a run asks."""
    assert isinstance(run, Asked), run
    return [json.loads(request)["messages"][0]["content"] for request in run.requests]


def answer(run: Outcome | Asked, *texts: str) -> list[Any]:
    assert isinstance(run, Asked), run
    replies = [{"reply": {"text": text, "finish_reason": "stop", "usage": {}}} for text in texts]
    return [[hashlib.sha256(r).hexdigest(), reply] for r, reply in zip(run.requests, replies, strict=True)]


@pytest.fixture
def asking(session: Session) -> Asking:
    return Asking(session)


CHANGED = """
from gradebox import Model
from gradebox.asks import asking

judge = Model("small-judge")
whole, Model.choose = Model.choose, None


async def grade(thread):
    Model.choose = whole
    return float((await judge.choose("Is it so?", ["0", "1"])).option)
"""


def test_a_grader_may_change_what_it_asks_with(session: Session) -> None:
    asking = Asking(session, CHANGED)
    (run,) = asking.step("a")
    (done,) = asking.step("a", answers=[answer(run, '{"option": "1"}')])
    assert isinstance(done, Outcome)
    assert done.score == 1.0


def test_what_is_asked_comes_out_and_answers_go_in(asking: Asking) -> None:
    runs = asking.step("pass", "pass")
    assert [asked(run) for run in runs] == [["Is it so? 0"], ["Is it so? 1"]]
    scored = asking.step("pass", "pass", answers=[answer(runs[0], "0.25"), answer(runs[1], "0.75")])
    assert [run.score for run in scored if isinstance(run, Outcome)] == [0.25, 0.75]


@pytest.mark.parametrize(
    "code",
    [
        "asking._named.add('model:another')\ncoroutine = __import__('gradebox').Model('another').chat('x')",
        "asking._is_settled = False\ncoroutine = __import__('gradebox').Model('another').chat('x')",
        "coroutine = asking.ask({'ask': 'model', 'name': 'another', 'messages': []})",
    ],
)
def test_code_that_asks_for_another_model_says_so_to_the_host(asking: Asking, code: str) -> None:
    """Who takes the process over can write any ask. The host answers what the version may ask, and nothing else."""
    (run,) = asking.step(code)
    assert isinstance(run, Asked)
    assert json.loads(run.requests[0])["name"] == "another"


def test_a_model_that_is_named_late_is_refused(asking: Asking) -> None:
    (run,) = asking.step("__import__('gradebox').Model('another')")
    assert isinstance(run, Outcome)
    assert run.error is not None
    assert run.error.kind == "exception"


def test_forged_answers_are_those_of_their_own_completion(asking: Asking) -> None:
    forge = """
async def forged(request):
    return {"reply": {"text": "666", "finish_reason": "", "usage": {}}}
asking.current().answer = forged
"""
    honest, forger, other = asking.step("pass", forge, "pass")
    assert asked(honest) == ["Is it so? 0"]
    assert isinstance(forger, Outcome)
    assert forger.score == 666.0
    assert asked(other) == ["Is it so? 2"]


def test_a_flood_of_asks_is_an_error_of_its_own_completion(asking: Asking) -> None:
    code = """
async def flood():
    import asyncio
    await asyncio.gather(*(judge.chat(str(n)) for n in range(5_000)))
coroutine = flood()
"""
    before, flood, behind = asking.step("pass", code, "pass")
    assert isinstance(before, Asked)
    assert isinstance(behind, Asked)
    assert isinstance(flood, Outcome)
    assert flood.error is not None
    assert (flood.error.kind, flood.error.cause) == ("model", "too_much")
    assert str(MOST_ASKS) in flood.error.message


def test_large_asks_go_out_as_far_as_a_record_holds(asking: Asking) -> None:
    code = """
async def many():
    import asyncio
    await asyncio.gather(*(judge.chat(f"{n}" + "x" * 250_000) for n in range(50)))
coroutine = many()
"""
    (run,) = asking.step(code)
    assert isinstance(run, Asked)
    assert 0 < len(run.requests) < 50
    assert sum(map(len, run.requests)) <= MAX_REQUESTS


@pytest.mark.parametrize(
    "body",
    [
        "b''",
        "b'\\x05\\0\\0\\0{}\\n\\x1e{'",  # it would end its line, and begin another
        "b'\\xff\\xff\\xff\\x7f{}'",
        "b'\\x02\\0\\0\\0{}' + b'\\x02\\0\\0'",
    ],
)
def test_forged_records_cost_their_own_completion(asking: Asking, body: str) -> None:
    code = f"""
import os
from sandbox.guest.protocol.frames import ASKED, REQUESTS, pack_record
record = pack_record(ASKED, 1, 1.0, [(REQUESTS, {body})])
for descriptor in range(3, 64):
    try:
        os.write(descriptor, record)
    except OSError:
        pass
os._exit(0)
"""
    before, forged, behind = asking.step("pass", code, "pass")
    assert isinstance(before, Asked)
    assert isinstance(behind, Asked)
    assert isinstance(forged, Outcome)
    assert forged.error is not None
    assert forged.error.kind == "crash"


def test_an_ask_beside_what_never_ends_comes_to_a_timeout(session: Session) -> None:
    code = """
import asyncio
async def spin():
    while True:
        await asyncio.sleep(0)
async def both():
    await asyncio.gather(judge.chat("x"), spin())
coroutine = both()
"""
    before, spinning, behind = Asking(session, timeout_s=1.0).step("pass", code, "pass")
    assert isinstance(before, Asked)
    assert isinstance(behind, Asked)
    assert isinstance(spinning, Outcome)
    assert spinning.error is not None
    assert spinning.error.kind == "timeout"


def test_answers_that_a_run_does_not_ask_for_are_an_error(asking: Asking) -> None:
    """The answers belong to another completion, or the grader changed its mind: no score is made of them."""
    (run,) = asking.step("pass")
    stray = [["00" * 32, {"reply": {"text": "1.0", "finish_reason": "", "usage": {}}}]]
    (outcome,) = asking.step("pass", answers=[answer(run, "1.0") + stray])
    assert isinstance(outcome, Outcome)
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.cause) == ("model", "not_repeated")
