"""Tests of promptfoo's webhook assertions, with bodies of promptfoo 0.121. `make clients` runs promptfoo itself."""

import json
from typing import Any

import httpx
import pytest

from tests.api.conftest import problem
from tests.gradebox.conftest import Service

pytestmark = pytest.mark.service

SHOWS = """
import json
from gradebox import Score

async def grade(thread: StringThread) -> float:
    seen = [thread.get_turns(), thread.metadata]
    return Score(thread.metadata.get("score", 0.5), reason=json.dumps(seen))
"""
SHOWS_CALLS = """
import json
from gradebox import Score

async def grade(thread: StringThread) -> float:
    calls = [[call.name, call.arguments, call.result] for call in thread.tool_calls]
    return Score(1, reason=json.dumps([thread.get_turns(), calls]))
"""
FAILS = "async def grade(thread):\n    return 1 / len(thread.metadata)\n"


@pytest.fixture(scope="module")
def url(service: Service) -> str:
    """The URL of a project's webhooks, with a key."""
    client = service.new_project()
    graders = client.graders
    graders.create.function(key="shows", fn=SHOWS)
    graders.create.function(key="calls", fn=SHOWS_CALLS)
    graders.create.function(key="plain", fn="async def grade(thread):\n    return 0.25\n")
    graders.create.function(key="fails", fn=FAILS, threads=[{"completion": "x", "metadata": {"a": 1}}])
    return f"{service.url.replace('://', f'://any:{service.key}@')}/promptfoo/v1/{client.project}"


def webhook(output: Any, prompt: str | None = "6 x 7?", **variables: Any) -> dict[str, Any]:
    return {"output": output, "context": {"prompt": prompt, "vars": variables}}


def test_what_is_sent_is_a_thread(url: str) -> None:
    answer = httpx.post(f"{url}/shows", json=webhook("42", answer="42")).json()
    assert (answer["pass"], answer["score"]) == (True, 0.5)
    assert json.loads(answer["reason"]) == [[["user", "6 x 7?"], ["assistant", "42"]], {"answer": "42"}]
    chat = json.dumps([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}])
    answer = httpx.post(f"{url}/shows", json=webhook({"a": 42}, chat)).json()
    assert json.loads(answer["reason"])[0] == [["system", "s"], ["user", "u"], ["assistant", '{"a":42}']]
    texts = ("[1, 2]", "[]", '[{"role": 1, "content": "x"}]', '[{"role": "model", "content": "x"}]', "{", "", "\\ud800")
    numbers = '[{"role": "user", "content": 5}]'
    for prompt in (*texts, numbers, "[" * 5000 + "]" * 5000, "a\ud800"):
        answer = httpx.post(f"{url}/shows", content=json.dumps(webhook("42", prompt))).json()
        turns, _ = json.loads(answer["reason"]) if len(prompt) < 1000 else ([["user", prompt], ["assistant", "42"]], {})
        assert turns == [["user", prompt], ["assistant", "42"]]
    assert httpx.post(f"{url}/shows", json={"output": "42"}).json()["pass"]


@pytest.mark.parametrize(
    ("asks", "name"),
    [
        ({"content": None, "tool_calls": [{"id": "c", "function": {"name": "now", "arguments": "{}"}}]}, "now"),
        ({"tool_calls": [{"id": "c", "function": {"name": "now", "arguments": "{}"}}]}, "now"),
        ({"content": None, "function_call": {"name": "now", "arguments": "{}"}}, "now"),
        ({"content": None, "refusal": "no"}, None),
    ],
)
def test_a_chat_prompt_with_messages_without_content(url: str, asks: dict[str, Any], name: str | None) -> None:
    tool = [{"role": "tool", "tool_call_id": "c", "content": "noon"}] if "tool_calls" in asks else []
    chat = json.dumps([{"role": "user", "content": "time?"}, {"role": "assistant", **asks}, *tool])
    answer = httpx.post(f"{url}/calls", json=webhook("It is noon.", chat)).json()
    turns, calls = json.loads(answer["reason"])
    told = [["assistant", asks.get("refusal", "")], *([["tool", "noon"]] if tool else [])]
    assert turns == [["user", "time?"], *told, ["assistant", "It is noon."]]
    assert calls == ([] if name is None else [[name, {}, "noon" if tool else None]])


def test_a_list_of_people_is_no_chat_prompt(url: str) -> None:
    for people in ([{"role": "user", "name": "Bob"}], [{"role": "user", "content": None, "tool_calls": None}]):
        answer = httpx.post(f"{url}/calls", json=webhook("42", json.dumps(people))).json()
        assert json.loads(answer["reason"])[0][0] == ["user", json.dumps(people)]


def test_the_threshold_is_in_the_url(url: str) -> None:
    for threshold, passes in (("", True), ("?threshold=0.5", True), ("?threshold=0.6", False), ("?threshold=-1", True)):
        answer = httpx.post(f"{url}/shows{threshold}", json=webhook("42")).json()
        assert (answer["pass"], answer["score"]) == (passes, 0.5)
    answer = httpx.post(f"{url}/plain", json=webhook("42")).json()
    assert answer == {"pass": False, "score": 0.25, "reason": "plain@1 gave 0.25, the threshold is 0.5"}
    answer = httpx.post(f"{url}/plain?threshold=0.25000001", json=webhook("42")).json()
    assert answer["reason"] == "plain@1 gave 0.25, the threshold is 0.25000001"
    problem(httpx.post(f"{url}/shows?threshold=nan", json=webhook("42")), 422, "invalid-request")
    problem(httpx.post(f"{url}/shows?threshold=much", json=webhook("42")), 422, "invalid-request")


def test_a_score_that_is_missing_is_an_error(url: str) -> None:
    assert "ZeroDivisionError" in problem(httpx.post(f"{url}/fails", json=webhook("42")), 422, "not-scored")
    problem(httpx.post(f"{url}/none", json=webhook("42")), 404, "not-found")
    problem(httpx.post(f"{url}/shows", json={"context": {}}), 422, "invalid-request")
    problem(httpx.post(f"{url}/shows", json=webhook(None)), 422, "invalid-request")
    assert "'treshold'" in problem(httpx.post(f"{url}/shows?treshold=1", json=webhook("42")), 422, "invalid-request")
    problem(httpx.post(f"{url}/shows", json={"output": "x", "context": {"vars": []}}), 422, "not-scored")
