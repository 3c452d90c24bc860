"""Tests of `gradebox.testing`: graders that ask, without a service."""

import asyncio
from typing import Any

import pytest

from gradebox import Grader, Model, ModelError, NotApplicable, Score, StringThread, once, testing
from gradebox.judges import ExternalEndpoint

THREAD = StringThread([("user", "Hi"), ("assistant", "Hello!")], {"id": 7})
judge = Model("small-judge")
external = ExternalEndpoint("my-reward")
other = Grader("has-answer@3")


async def grade(thread: StringThread) -> float:
    politely = await judge.choose(f"Polite? {thread.completion()}", ["yes", "no"])
    rewarded, found = await asyncio.gather(external(thread), other(thread))
    return Score((politely.option == "yes") + rewarded + found + await once(lambda: 8.0), reason=rewarded.reason)


def test_models_endpoints_and_graders_answer_what_the_test_says() -> None:
    replies = lambda request: {"option": "yes" if "Hello" in request["messages"][0]["content"] else "no"}  # noqa: E731
    with (
        testing.model("small-judge", replies) as judged,
        testing.endpoint("my-reward", [{"reward": 2, "metadata": {"reason": "why not"}}]) as rewarded,
        testing.grader("has-answer@3", [4]) as found,
    ):
        score = asyncio.run(grade(THREAD))
    assert (float(score), score.reason) == (15.0, "why not")  # type: ignore[attr-defined]
    assert (len(judged), len(rewarded), len(found)) == (1, 1, 1)
    assert rewarded[0]["thread"] == {"messages": THREAD.raw_messages(), "metadata": {"id": 7}}


def test_what_fails_or_does_not_apply_is_raised() -> None:
    with testing.endpoint("my-reward", [ModelError("unreachable", "away", retryable=True)]):
        with pytest.raises(ModelError, match="away") as raised:
            asyncio.run(external(THREAD))
        assert raised.value.retryable
    with testing.grader("has-answer@3", [NotApplicable("no answer")]), pytest.raises(NotApplicable, match="no answer"):
        asyncio.run(other(THREAD))


def test_what_is_not_scripted_is_named() -> None:
    async def ask(model: Any) -> Any:
        return await model.chat("Hi")

    with testing.model("another", ["x"]), pytest.raises(ModelError, match="scripts no model 'small-judge'") as raised:
        asyncio.run(ask(judge))
    assert raised.value.kind == "unknown"
    with testing.model("small-judge", ["x"]):
        assert asyncio.run(ask(judge)).text == "x"
        with pytest.raises(AssertionError, match="once more than the 1 times"):
            asyncio.run(ask(judge))
    with pytest.raises(RuntimeError, match=r"gradebox\.testing"):
        asyncio.run(ask(judge))
