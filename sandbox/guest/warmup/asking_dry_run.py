"""Runs a built-in grader that asks, before the first fork for a grader that asks. `dry_run` describes the savings."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from hashlib import sha256
from json import dumps
from typing import Any, cast

from gradebox.asks.asking import Answer, ask, using
from gradebox.asks.model import Model
from gradebox.score import Score
from gradebox.thread import StringThread
from sandbox.guest.child.asking_run import AskingRun
from sandbox.guest.child.read_thread import ThreadReader
from sandbox.guest.protocol.frames import ANSWERED, GraderLimits, pack_record

_THREAD = (
    b'{"id": "a", "messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}], '
    b'"metadata": {}}'
)
_TEXT = '{"reasoning": "It is polite.", "option": "yes"}'
_ANSWER: Answer = {"reply": {"text": _TEXT, "finish_reason": "stop", "usage": {"input_tokens": 9, "output_tokens": 9}}}
_TIMES = 16

_Grade = Callable[[StringThread], Coroutine[Any, Any, object]]


class _Rehearsed:
    needs_loop = False
    groups = False
    asks = True
    touches_system = False
    text = ""

    def __init__(self, grade: _Grade) -> None:
        self.grade = cast("Callable[[object], Coroutine[Any, Any, object]]", grade)


class _Listener:
    """Answers at once, and stores the digest of the request."""

    digest = ""

    async def answer(self, request: bytes) -> Answer:
        self.digest = sha256(request).hexdigest()
        return _ANSWER

    def remembered(self, name: str) -> tuple[bool, Any]:
        return False, None

    def remember(self, request: bytes) -> None:
        pass


def rehearse_asking(asks: tuple[str, ...], limits: GraderLimits, reader: ThreadReader) -> None:
    """Runs the grader as for completions: up to an ask, and again with its answer. Takes a few milliseconds."""
    grade = _grade_of(asks)
    listener = _Listener()
    with using(listener), suppress(StopIteration):
        grade(reader.read(_THREAD)).send(None)
    answers = dumps([[listener.digest, _ANSWER]]).encode()
    run = AskingRun(_Rehearsed(grade), limits, reader)
    for _ in range(_TIMES):
        run.grade(b"[]" + ANSWERED + _THREAD)
        pack_record(*run.grade(answers + ANSWERED + _THREAD))


def _grade_of(asks: tuple[str, ...]) -> _Grade:
    models = [Model(name) for kind, _, name in (asked.partition(":") for asked in asks) if kind == "model"]

    async def choose(thread: StringThread) -> object:
        verdict = await models[0].choose(f"Is this polite?\n\n{thread.completion()}", ["yes", "no"])
        return Score(verdict.option == "yes", reason=verdict.reasoning)

    async def ask_one(thread: StringThread) -> object:
        reply = await ask({"ask": "endpoint", "name": "reward", "thread": {"messages": [], "metadata": {}}})
        return Score(float(bool(reply)), reason=thread.completion())

    return choose if models else ask_one
