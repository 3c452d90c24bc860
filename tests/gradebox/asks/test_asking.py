"""Tests of the text of an ask: members whose order is meaningful keep it, and equal asks have equal bytes."""

import asyncio
import json
from typing import Any

import pytest

from gradebox.asks.asking import Answer, encoded, using
from gradebox.asks.endpoint import Endpoint
from gradebox.asks.errors import ModelError
from gradebox.asks.model import Model
from gradebox.asks.other_grader import Grader
from gradebox.judges import BinaryJudge
from gradebox.thread import StringThread
from models.parse_ask import GraderRequest, parse

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"steps": {"type": "string"}, "result": {"type": "number"}}}
RUBRIC = StringThread([("assistant", "x")], {"rubric": {"warm": "w", "brief": "b", "able": "a"}, "id": 1})


class Recorded:
    """Records the requests, and answers each with this reply."""

    def __init__(self, reply: dict[str, Any]) -> None:
        self._reply = reply
        self.requests: list[bytes] = []

    async def answer(self, request: bytes) -> Answer:
        self.requests.append(request)
        return {"reply": self._reply}

    def remembered(self, name: str) -> tuple[bool, Any]:
        return False, None

    def remember(self, request: bytes) -> None:
        self.requests.append(request)


def test_the_members_of_a_schema_are_sent_in_their_order() -> None:
    recorded = Recorded({"text": '{"reasoning": "r", "option": "yes"}'})
    with using(recorded):
        asyncio.run(Model("m").choose("?", ["yes", "no"]))
        asyncio.run(Model("m").chat("?", schema=SCHEMA))
    chosen, chatted = (json.loads(request)["schema"] for request in recorded.requests)
    assert list(chosen["properties"]) == ["reasoning", "option"]
    assert list(chatted["properties"]) == ["steps", "result"]


def test_the_metadata_of_a_thread_is_sent_in_its_order() -> None:
    recorded = Recorded({"score": 1.0, "reward": 1.0})
    with using(recorded):
        asyncio.run(Grader("g")(RUBRIC))
        asyncio.run(Endpoint("e").score(RUBRIC))
    for request in recorded.requests:
        metadata = json.loads(request)["thread"]["metadata"]
        assert (list(metadata), list(metadata["rubric"])) == (["rubric", "id"], ["warm", "brief", "able"])


def test_an_ask_without_a_schema_is_one_text_which_replies_are_kept_by() -> None:
    """A change of this text costs all projects their kept replies."""
    recorded = Recorded({"text": "yes"})
    turns = [{"role": "system", "content": "Judge."}, {"content": "é?", "role": "user"}]
    with using(recorded):
        asyncio.run(Model("m").chat(turns, max_tokens=9, temperature=0.0, sample=1))
    assert recorded.requests[0].decode() == (
        '{"ask":"model","max_tokens":9,"messages":[{"content":"Judge.","role":"system"},{"content":"é?","role":"user"}],'
        '"name":"m","sample":1,"temperature":0.0}'
    )
    assert encoded({"name": "m", "ask": "model"}) == encoded({"ask": "model", "name": "m"})


def test_half_an_emoji_of_a_completion_is_sent_as_its_escape() -> None:
    """Such a completion had no score: it could not be sent."""
    recorded = Recorded({"text": '{"reasoning": "r", "score": "PASS"}'})
    with using(recorded):
        thread = StringThread([("user", "?"), ("assistant", "Hi \ud83d")])
        assert asyncio.run(BinaryJudge("It is polite", "m")(thread)) == 1.0
    assert "\nHi \\ud83d\n" in json.loads(recorded.requests[0])["messages"][-1]["content"]


def test_half_an_emoji_reaches_an_endpoint_as_its_escape_and_another_grader_as_it_is() -> None:
    recorded = Recorded({"score": 1.0, "reward": 1.0})
    thread = StringThread([("assistant", "Hi \ud83d 😀")], {"cut \udc00": r"\ud83d"})
    with using(recorded):
        asyncio.run(Endpoint("e").score(thread))
        asyncio.run(Grader("g")(thread))
    to_endpoint, to_grader = (json.loads(request)["thread"] for request in recorded.requests)
    assert to_endpoint["messages"] == [{"role": "assistant", "content": r"Hi \ud83d 😀"}]
    assert to_endpoint["metadata"] == {r"cut \udc00": r"\ud83d"}
    assert StringThread.from_object(to_grader) == thread
    asked = parse(recorded.requests[1])
    assert isinstance(asked, GraderRequest)
    assert json.loads(bytes(asked.thread)) == to_grader


def test_a_model_is_told_all_options() -> None:
    """Only the first 500 characters of them were listed: of 128 responses, the first 33 could win."""
    recorded = Recorded({"text": '{"reasoning": "r", "option": "none"}'})
    options = [f"response {number}" for number in range(1, 129)]
    with using(recorded), pytest.raises(ModelError, match=r'the options "response 1", .{460,490}, asked 3 times$'):
        asyncio.run(Model("m").choose("?", options))
    messages = json.loads(recorded.requests[-1])["messages"]
    for asked in (messages[0], messages[2]):
        assert all(f'"{option}"' in asked["content"] for option in options)


@pytest.mark.parametrize(("characters", "asks"), [(1000, 3), (200_000, 2), (262_100, 1)])
def test_a_long_reply_that_does_not_fit_is_invalid_and_not_an_ask_that_is_too_large(characters: int, asks: int) -> None:
    recorded = Recorded({"text": "x" * characters})
    with using(recorded), pytest.raises(ModelError, match="chose none of the options") as raised:
        asyncio.run(Model("m").choose("?", ["yes", "no"]))
    assert raised.value.kind == "invalid_reply"
    assert len(recorded.requests) == asks
    with using(recorded), pytest.raises(ModelError, match="it holds no JSON object") as raised:
        asyncio.run(Model("m").chat("?", schema=SCHEMA))
    assert raised.value.kind == "invalid_reply"
    assert ("too long" in raised.value.message) == (asks < 3)
