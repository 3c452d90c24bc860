"""Tests of graders that ask, in real sandboxes, with scripted answers."""

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from functools import partial
from time import monotonic
from typing import Any

import pytest

from gradebox.outcome import Outcome, Spent, details_of
from models.asks.ask_context import AskContext
from models.asks.asker import Asker
from models.replies.answer_json import Answer
from models.scoring.asking_scorer import AskingScorer
from sandbox.grader_source import GraderSource
from sandbox.grading.grading import Grading
from sandbox.pool.pool import Pool

pytestmark = pytest.mark.sandbox

CONTEXT = AskContext("p", "g", "g@1")
HEAD = """
import asyncio
import time

from gradebox import Model, NotApplicable, Score, once

judge = Model("small-judge")


async def grade(thread: StringThread) -> float:
"""


def asks(body: str) -> str:
    """A grader with this body of `grade`, which asks the model `judge`."""
    return HEAD + body


JUDGE = asks("""
    verdict = await judge.choose(f"Is this polite? {thread.completion()}", ["yes", "no"])
    return Score(verdict.option == "yes", reason=verdict.reasoning, details={"option": verdict.option})
""")


class Scripted(Asker):
    """Answers each request by calling a function in a new thread after some seconds."""

    def __init__(self, answer: Callable[[dict[str, Any]], dict[str, Any]], delay_s: float = 0.0) -> None:
        self._answer = answer
        self._delay_s = delay_s
        self.requests: list[dict[str, Any]] = []
        self.since: list[float] = []
        self.at_once = self.most_at_once = 0
        self._lock = threading.Lock()
        self.enough = 1 << 20

    def room(self, context: AskContext) -> int:
        return max(self.enough - self.at_once, 0)

    def ask(self, request: bytes, context: AskContext, wanted: Callable[[], bool]) -> Future[Answer]:
        future: Future[Answer] = Future()
        with self._lock:
            self.requests.append(json.loads(request))
            self.since.append(context.since)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        threading.Timer(self._delay_s, self._settle, (future, json.loads(request))).start()
        return future

    def _settle(self, future: Future[Answer], request: dict[str, Any]) -> None:
        with self._lock:
            self.at_once -= 1
        if future.set_running_or_notify_cancel():
            future.set_result(Answer(json.dumps(self._answer(request)).encode(), Spent(1, 0, 10, 2, 0.5)))


class Answering:
    """Answers like the service, for a project with one model, one endpoint and one grader."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def missing(self, asks: Sequence[str]) -> str | None:
        there = {"model:small-judge", "endpoint:my-reward", "grader:exact-match"}
        return None if there.issuperset(asks) else f"the project lacks one of {asks}"

    def scorer(self, grading: Grading, asks: Sequence[str]) -> AskingScorer:
        return AskingScorer(lambda: nullcontext(grading), self._asker, CONTEXT)


def text(said: str) -> dict[str, Any]:
    return {"reply": {"text": said, "finish_reason": "stop", "usage": {"input_tokens": 10, "output_tokens": 2}}}


def polite(request: dict[str, Any]) -> dict[str, Any]:
    option = "no" if "rude" in request["messages"][0]["content"].split("\n")[0] else "yes"
    return text(json.dumps({"reasoning": "so it seems", "option": option}))


class Half(Scripted):
    """Answers requests with the word `slow` after some seconds, and the others at once."""

    def __init__(self, delay_s: float) -> None:
        super().__init__(polite)
        self._slow = Scripted(polite, delay_s)

    def ask(self, request: bytes, context: AskContext, wanted: Callable[[], bool]) -> Future[Answer]:
        return self._slow.ask(request, context, wanted) if b"slow" in request else super().ask(request, context, wanted)


def lines(*completions: str) -> bytes:
    return b"\n".join(json.dumps({"id": n, "completion": each}).encode() for n, each in enumerate(completions))


def scored(pool: Pool, source: str, asker: Asker, payload: bytes, stop: Any = None, first: int = 0) -> list[Outcome]:
    scorer = AskingScorer(partial(pool.grading, GraderSource(source, project="p")), asker, CONTEXT)
    return scorer.score(payload, first, "g@1", stop=stop)


def proved_and_scored(pool: Pool, source: str, asker: Asker, line: bytes) -> Outcome:
    """The outcome of a line, with which the source is proved before."""
    grader = GraderSource(source, project="p")
    report = pool.prove(grader, [line], answering=Answering(asker))
    assert report.valid, report.checks
    if report.asks:
        return scored(pool, source, asker, line)[0]
    with pool.grading(grader) as grading:
        return grading.score(line, 0, "g@1")[0]


def test_a_judge_scores_with_what_its_model_answers(pool: Pool) -> None:
    asker = Scripted(polite, 1.0)
    payload = lines(*(f"{kind} {n}" for n in range(10) for kind in ("rude", "kind")))
    outcomes = scored(pool, JUDGE, asker, payload, first=7)
    assert [outcome.score for outcome in outcomes] == [0.0, 1.0] * 10
    assert [outcome.index for outcome in outcomes] == list(range(7, 27))
    assert [outcome.id for outcome in outcomes] == list(range(20))
    assert {outcome.reason for outcome in outcomes} == {"so it seems"}
    assert details_of(outcomes[0]) == {"option": "no"}
    assert outcomes[0].spent == Spent(1, 0, 10, 2, 0.5)
    assert asker.most_at_once == 20


def test_servers_are_asked_with_settings_that_are_no_older_than_the_call(pool: Pool) -> None:
    asker, began = Scripted(polite), []
    scorer = AskingScorer(partial(pool.grading, GraderSource(JUDGE, project="p")), asker, CONTEXT)
    for _ in range(2):
        began.append(monotonic())
        assert [outcome.score for outcome in scorer.score(lines("kind"), 0, "g@1")] == [1.0]
    assert began[0] < asker.since[0] < began[1] < asker.since[1] < monotonic()


def test_no_more_is_begun_than_the_model_can_take(pool: Pool) -> None:
    asker = Scripted(polite, 0.05)
    asker.enough = 10
    outcomes = scored(pool, JUDGE, asker, lines(*(f"kind {n}" for n in range(200))))
    assert [outcome.score for outcome in outcomes] == [1.0] * 200
    assert asker.most_at_once == 10


def test_what_is_gathered_is_asked_in_one_round(pool: Pool) -> None:
    source = asks("""
    votes = await asyncio.gather(*(asyncio.wait_for(judge.chat(f"vote {n}", sample=n), 30) for n in range(5)))
    verdict = await judge.chat(f"sum up {[vote.text for vote in votes]}")
    return float(verdict.text)
""")
    asker = Scripted(lambda request: text("0.25" if "sum up" in request["messages"][0]["content"] else "aye"), 0.05)
    (outcome,) = scored(pool, source, asker, lines("x"))
    assert outcome.score == 0.25
    assert asker.most_at_once == 5
    assert len(asker.requests) == 6
    assert asker.requests[-1]["messages"] == [{"role": "user", "content": f"sum up {['aye'] * 5}"}]


def test_what_is_done_once_is_remembered(pool: Pool) -> None:
    source = asks("""
    now = await once(time.time_ns)
    two = await once(lambda: [now, 2])
    assert two == [now, 2]
    return float((await judge.chat(f"It is {now}: is it so?")).text)
""")
    (outcome,) = scored(pool, source, Scripted(lambda _: text("1.0")), lines("x"))
    assert outcome.score == 1.0


@pytest.mark.parametrize(
    "body",
    [
        "plan = await once(drafted)",
        "plan = await once(lambda: once(drafted))",
        "plan, _ = await asyncio.gather(once(drafted), judge.chat('draft'))",
    ],
)
def test_what_is_done_once_may_ask(pool: Pool, body: str) -> None:
    source = asks(f"""
    async def drafted():
        return f"{{(await judge.chat('draft')).text}} of {{time.time_ns()}}"

    {body}
    assert (await judge.chat(plan)).text == "draft of"
    return float((await judge.chat("score")).text == "score")
""")
    (outcome,) = scored(
        pool, source, Scripted(lambda asked: text(" ".join(asked["messages"][0]["content"].split()[:2]))), lines("x")
    )
    assert outcome.score == 1.0, outcome.error


def test_what_a_grader_sends_and_stores_keeps_its_order(pool: Pool) -> None:
    source = (
        asks("""
    rubric = await once(lambda: {word: 1.0 for word in sorted(set(thread.metadata["rubric"]), reverse=True)})
    assert list(rubric) == ["warm", "brief", "able"]
    return await Grader("first")(StringThread([("assistant", "x")], {"rubric": thread.metadata["rubric"]}))
""")
        .replace("import Model", "import Grader, Model")
        .replace("async def", 'first = Grader("first")\n\n\nasync def', 1)
    )
    asker = Scripted(lambda _: {"reply": {"score": 0.5}})
    line = json.dumps({"completion": "x", "metadata": {"rubric": {"warm": 1, "able": 2, "brief": 3}}}).encode()
    (outcome,) = scored(pool, source, asker, line)
    assert outcome.score == 0.5, outcome.error
    (request,) = asker.requests
    assert list(request["thread"]["metadata"]["rubric"]) == ["warm", "able", "brief"]


def test_equal_asks_are_told_apart_by_their_order(pool: Pool) -> None:
    source = asks("""
    first = await judge.chat("a number")
    second = await judge.chat("a number")
    return float(first.text) + 10 * float(second.text)
""")
    numbers = iter("12")
    (outcome,) = scored(pool, source, Scripted(lambda _: text(next(numbers))), lines("x"))
    assert outcome.score == 21.0


@pytest.mark.parametrize(("kind", "retryable"), [("unreachable", True), ("refused", False), ("over_budget", False)])
def test_an_ask_that_fails_is_no_score(pool: Pool, kind: str, retryable: bool) -> None:
    error = {"error": {"kind": kind, "message": "the server is away", "retryable": retryable, "reply": "<html>"}}
    (outcome,) = scored(pool, JUDGE, Scripted(lambda _: error), lines("x"))
    assert outcome.score is None
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.cause, outcome.error.retryable) == ("model", kind, retryable)
    assert (outcome.error.message, outcome.error.reply) == ("the server is away", "<html>")


CATCHING = """
from gradebox import Model, ModelError, Score, StringThread
from gradebox.judges import Combine, DirectJudge

other = Model("small-judge")
judge = {judge}


async def grade(thread: StringThread) -> float:
    try:
        return await judge(thread)
    except ModelError as error:
        reply = await other.chat(f"instead of {{error.kind}}")
        return Score(float(reply.text), reason=error.kind)
"""


class Failing:
    """Answers like a judge, but with an error of this kind at a step of a sample: `choice_0="refused"`."""

    def __init__(self, **kinds: str) -> None:
        self._kinds = kinds

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        said = request["messages"][-1]["content"]
        if said.startswith("instead of"):
            return text("0.25")
        step = "choice" if "schema" in request else "assessment"
        if kind := self._kinds.get(f"{step}_{request['sample']}"):
            return {"error": {"kind": kind, "message": "the server is away", "retryable": kind == "unreachable"}}
        return text('{"option": "Yes", "reasoning": "so"}') if step == "choice" else text("it is good")


@pytest.mark.parametrize("head", ["", "import asyncio\n"], ids=["without a loop", "in a loop"])
@pytest.mark.parametrize(
    ("judge", "failing", "kind"),
    [
        ("self_consistency=3", Failing(choice_0="unreachable"), "unreachable"),
        ("self_consistency=3", Failing(choice_2="unreachable"), "unreachable"),
        ("self_consistency=3", Failing(choice_2="unreachable", choice_1="refused"), "refused"),
        # What fails in the first round is the error, also once the failure of an earlier call is known.
        ("self_consistency=3, steps=2", Failing(assessment_2="unreachable", choice_0="refused"), "unreachable"),
        ("self_consistency=3, steps=2", Failing(choice_2="unreachable", choice_1="refused"), "refused"),
    ],
)
def test_a_failed_ask_among_several_is_an_error_that_a_grader_can_catch(
    pool: Pool, head: str, judge: str, failing: Failing, kind: str
) -> None:
    source = head + CATCHING.format(judge=f'DirectJudge("It is brief", "small-judge", {judge})')
    (outcome,) = scored(pool, source, Scripted(failing), lines("x"))
    assert (outcome.score, outcome.reason) == (0.25, kind), outcome.error


@pytest.mark.parametrize("head", ["", "import asyncio\n"], ids=["without a loop", "in a loop"])
def test_a_failed_ask_of_a_part_is_the_error_of_the_whole(pool: Pool, head: str) -> None:
    combined = """Combine({
        "brief": DirectJudge("It is brief", "small-judge", self_consistency=2),
        "apt": DirectJudge("It is apt", "small-judge", steps=2),
    })"""
    source = head + CATCHING.format(judge=combined).replace("except ModelError", "except ZeroDivisionError")
    (outcome,) = scored(pool, source, Scripted(Failing(choice_0="unreachable")), lines("x"))
    assert outcome.error is not None and (outcome.error.cause, outcome.error.retryable) == ("unreachable", True)
    assert outcome.details is not None


GATHERING = """
import asyncio
from gradebox import Model, ModelError, Score, StringThread

judge = Model("small-judge")


async def twice(text: str) -> str:
    reply = await judge.chat(text)
    return (await judge.chat(f"after {reply.text}")).text


async def deep(text: str) -> str:
    replies = await asyncio.gather(asyncio.gather(twice(text)))
    return (await judge.chat(f"after {replies}")).text


async def grade(thread: StringThread) -> float:
    try:
        GATHERED
    except* ModelError as group:
        error = group.exceptions[0]
    reply = await judge.chat(f"instead of {error}")
    reply = await judge.chat(f"then {reply.text}")
    return Score(0.25, reason=str(error))
"""
GATHERED = {
    "later tasks ask again": 'await asyncio.gather(judge.chat("bad"), twice("a"), judge.chat("b"))',
    "an earlier task fails later": 'await asyncio.gather(twice("late"), judge.chat("bad"))',
    "a task asks again after more steps": 'await asyncio.gather(deep("a"), judge.chat("bad"))',
    "a group cancels its tasks": """async with asyncio.TaskGroup() as tasks:
            for task in (twice("late"), judge.chat("bad"), deep("a")):
                tasks.create_task(task)""",
}


@pytest.mark.parametrize("gathered", GATHERED.values(), ids=GATHERED)
def test_the_task_that_failed_first_is_the_error_in_every_run(pool: Pool, gathered: str) -> None:
    def replied(request: dict[str, Any]) -> dict[str, Any]:
        said = request["messages"][-1]["content"]
        return {"error": {"kind": "failed", "message": said}} if said in ("bad", "after late") else text(said)

    (outcome,) = scored(pool, GATHERING.replace("GATHERED", gathered), Scripted(replied), lines("x"))
    assert (outcome.score, outcome.reason) == (0.25, "bad"), outcome.error


def test_a_model_that_never_fits_is_asked_three_times_and_its_last_reply_is_kept(pool: Pool) -> None:
    asker = Scripted(lambda _: text("I would say it is not yes"))
    (outcome,) = scored(pool, JUDGE, asker, lines("x"))
    assert outcome.error is not None and (outcome.error.cause, outcome.error.retryable) == ("invalid_reply", False)
    assert outcome.error.reply == "I would say it is not yes"
    assert len(asker.requests) == 3
    roles = [turn["role"] for turn in asker.requests[2]["messages"]]
    assert roles == ["user", "assistant", "user", "assistant", "user"]


def test_a_reply_that_fits_when_it_is_asked_for_again_counts(pool: Pool) -> None:
    replies = iter(["Well, yes.. or no", '{"option": "no", "reasoning": "rude"}'])
    (outcome,) = scored(pool, JUDGE, Scripted(lambda _: text(next(replies))), lines("x"))
    assert (outcome.score, outcome.reason) == (0.0, "rude")
    assert outcome.spent is not None and outcome.spent.asks == 2


def test_more_asks_than_a_completion_may_have_are_an_error(pool: Pool) -> None:
    flood = asks("""
    await asyncio.gather(*(judge.chat(f"{n}") for n in range(1000)))
    return 1.0
""")
    ever = asks("""
    n = 0
    while True:
        n += 1
        await judge.chat(f"{n}")
""")
    huge = asks("""
    await judge.chat("x" * 300_000)
    return 1.0
""")
    for source, most in ((flood, 0), (ever, 16), (huge, 0)):
        asker = Scripted(lambda _: text("1"))
        (outcome,) = scored(pool, source, asker, lines("x"))
        assert outcome.error is not None
        assert (outcome.error.kind, outcome.error.cause) == ("model", "too_much"), outcome.error
        assert len(asker.requests) <= most


def test_asks_that_fill_more_than_a_record_go_out_with_the_next(pool: Pool) -> None:
    source = asks("""
    replies = await asyncio.gather(*(judge.chat(f"{n}" + "x" * 200_000) for n in range(7)))
    return sum(float(reply.text) for reply in replies)
""")
    asker = Scripted(lambda request: text(request["messages"][0]["content"][0]))
    (outcome,) = scored(pool, source, asker, lines("x"))
    assert outcome.score == 21.0
    assert len(asker.requests) == 7


@pytest.mark.parametrize(
    ("asked", "kind", "cause", "told"),
    [
        ("judge.chat(f'It is {time.time_ns()}: is it so?')", "model", "not_repeated", ""),
        ("Model('another').chat('?')", "exception", None, "module level"),
        # In a thread, it was a timeout, with advice to look for a slow regular expression.
        ("asyncio.to_thread(asyncio.run, judge.chat('?'))", "exception", None, "await it in `grade` itself"),
        (
            "asyncio.get_running_loop().run_in_executor(None, asyncio.run, judge.chat('?'))",
            *("exception", None, "and ask in `grade` itself"),
        ),
    ],
)
def test_an_ask_that_cannot_be_is_an_error_that_says_so(
    pool: Pool, asked: str, kind: str, cause: str | None, told: str
) -> None:
    source = asks(f"\n    return float((await {asked}).text)\n")
    (outcome,) = scored(pool, source, Scripted(lambda _: text("1")), lines("x"))
    assert outcome.score is None and outcome.error is not None
    assert (outcome.error.kind, outcome.error.cause, told in outcome.error.message) == (kind, cause, True), outcome


def test_a_crash_behind_an_answer_costs_one_completion(pool: Pool) -> None:
    source = JUDGE.replace(
        "    return Score",
        "    if 'crash' in thread.completion():\n        __import__('os')._exit(3)\n    return Score",
    )
    outcomes = scored(pool, source, Scripted(polite, 0.02), lines("a", "crash", "b", "rude"))
    assert [outcome.score for outcome in outcomes] == [1.0, None, 1.0, 0.0]
    assert outcomes[1].error is not None and outcomes[1].error.kind == "crash"


def test_when_no_more_is_wanted_asks_are_given_up_and_the_first_outcomes_kept(pool: Pool) -> None:
    began = monotonic()
    outcomes = scored(
        pool, JUDGE, Half(60.0), lines("a", "b", "slow", "c"), stop=lambda done: done == 2 and monotonic() - began > 1
    )
    assert [outcome.score for outcome in outcomes] == [1.0, 1.0]
    assert monotonic() - began < 10
    for timer in threading.enumerate():
        if isinstance(timer, threading.Timer):
            timer.cancel()
