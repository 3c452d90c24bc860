"""Tests of reading completions: a reply is whole, or an error that says why, and its tokens are counted in any case."""

import json
import tracemalloc
from typing import Any

import pytest

from models.errors import AskFailed, TokenUsage
from models.replies import error_answers
from models.replies.chat_completion import ServerReply, read

KEY = "sk-very-secret-of-a-model-0123456789"
USAGE = {"prompt_tokens": 7, "completion_tokens": 3}
TEXTS = [{"type": "text", "text": '{"option": '}, {"type": "text", "text": '"yes"}'}]


def completion(content: Any = "yes", finish_reason: Any = "stop", **members: Any) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish_reason}
    return json.dumps({"id": "x", "choices": [choice], "usage": USAGE, **members}).encode()


def failed(body: bytes) -> AskFailed:
    with pytest.raises(AskFailed) as raised:
        read(body, (KEY,))
    return raised.value


def test_a_reply() -> None:
    assert read(completion(), (KEY,)) == ServerReply("yes", "stop", False, TokenUsage(7, 3))
    assert read(completion(error=None), (KEY,)).text == "yes"
    assert read(completion(error={}), (KEY,)).text == "yes"


@pytest.mark.parametrize(
    "thought",
    [
        [],
        [{"type": "thinking", "thinking": [{"type": "text", "text": '{"option": "no"}'}], "signature": None}],
        [{"type": "reasoning", "text": '{"option": "no"}'}],
    ],
)
def test_parts_of_text_are_one_text_without_what_the_model_thought(thought: list[Any]) -> None:
    assert read(completion([*thought, *TEXTS]), (KEY,)).text == '{"option": "yes"}'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([*TEXTS, {"type": "image_url", "image_url": {}}], "'image_url'"),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "So: yes"}]}], "empty"),
        ([{"text": "yes"}], "something else than text"),
        (["yes"], "something else than text"),
        (5, "something else than text"),
        ([], "empty"),
        (None, "empty"),
    ],
)
def test_other_parts_are_no_reply(content: Any, said: str) -> None:
    error = failed(completion(content))
    assert (error.fault.kind, error.usage) == ("invalid_reply", (7, 3))
    assert said in error.fault.message
    assert "base URL" not in error.fault.message


@pytest.mark.parametrize(
    "reason",
    ["stop", "STOP", None, "", "eos", "eos_token", "stop_sequence", "end_turn", "COMPLETE", "tool_calls", "tool-calls"],
)
def test_these_replies_are_whole(reason: str | None) -> None:
    assert read(completion(finish_reason=reason), (KEY,)).text == "yes"


@pytest.mark.parametrize(
    ("reason", "kind", "retryable"),
    [
        *(("length", "cut_off", False), ("MAX_TOKENS", "cut_off", False), ("content_filter", "refused", False)),
        *(("SAFETY", "refused", False), ("abort", "unreachable", True), ("aborted", "unreachable", True)),
        *(("error", "unreachable", True), ("cancelled", "unreachable", True)),
        *(("insufficient_system_resource", "unreachable", True), ("repetition", "invalid_reply", False)),
        *(("anything else", "invalid_reply", False), ({"type": "stop"}, "invalid_reply", False)),
    ],
)
@pytest.mark.parametrize("content", ['{"option": "yes"}', ""])
def test_these_are_not_and_their_tokens_count(reason: Any, kind: str, retryable: bool, content: str) -> None:
    error = failed(completion(content, reason))
    assert (error.fault.kind, error.fault.retryable, error.usage) == (kind, retryable, (7, 3))


@pytest.mark.parametrize("usage", [b'"usage":{"prompt_tokens":7,"completion_tokens":3}', None])
@pytest.mark.parametrize(
    "content", [b'"\\ud83d"', b'"caf\xe9"', b"NaN", b'"\\"usage\\":{\\"prompt_tokens\\":9}\\ud83d"'], ids=str
)
def test_tokens_count_though_the_text_is_invalid(content: bytes, usage: bytes | None) -> None:
    body = b'{"choices":[{"message":{"content":%b},"finish_reason":"stop"}],%b}' % (content, usage or b'"id":"x"')
    error = failed(body)
    assert (error.fault.kind, error.fault.retryable) == ("invalid_reply", False)
    assert error.usage == ((7, 3) if usage else (0, 0))


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({**USAGE, "total_tokens": 10}, (7, 3)),
        ({**USAGE, "total_tokens": 110, "completion_tokens_details": {"reasoning_tokens": 100}}, (7, 103)),
        ({"total_tokens": 10}, (0, 10)),
        ({**USAGE, "total_tokens": 5}, (7, 3)),
        ({**USAGE, "total_tokens": "110"}, (7, 3)),
        ({**USAGE, "total_tokens": 1e30}, (7, (1 << 24) - 8)),
        ({"input_tokens": 7, "output_tokens": 3}, (7, 3)),
        ({**USAGE, "input_tokens": 100, "output_tokens": 100}, (7, 3)),
    ],
)
def test_tokens_are_counted_by_whichever_name_a_server_uses(usage: dict[str, Any], counted: tuple[int, int]) -> None:
    assert read(completion(usage=usage), (KEY,)).usage == counted


def test_a_body_that_ends_before_it_is_complete_is_a_broken_answer() -> None:
    body = completion('{"option": "yes"}')
    for size in range(1, len(body)):
        error = failed(body[:size])
        assert (error.fault.kind, error.fault.retryable) == ("unreachable", True), body[:size]
    for other in (b"", b"<html>", b"{}", b"[1]", body + b"}", b"yes"):
        assert (failed(other).fault.kind, failed(other).fault.retryable) == ("invalid_reply", False), other


@pytest.mark.parametrize(
    ("named", "kind", "retryable"),
    [
        ({"code": 429, "message": "Rate limit exceeded"}, "rate_limited", True),
        ({"code": "429", "message": "Rate limit exceeded"}, "rate_limited", True),
        ({"code": 502, "message": "provider down"}, "unreachable", True),
        ({"status": 503, "code": None, "message": "overloaded"}, "unreachable", True),
        ({"code": 401, "message": "No auth"}, "refused", False),
        ({"code": 402, "message": "No credits"}, "refused", False),
        ({"code": 404, "message": "no such model"}, "unknown", False),
        ({"code": 400, "message": "too long"}, "refused", False),
        ({"code": True, "message": "what"}, "refused", False),
        ({"message": "what"}, "refused", False),
        ("what", "refused", False),
    ],
)
def test_an_error_with_status_200_is_the_error_that_it_names(named: Any, kind: str, retryable: bool) -> None:
    for body in (json.dumps({"error": named}).encode(), completion(error=named)):
        error = failed(body)
        assert (error.fault.kind, error.fault.retryable) == (kind, retryable), error
        assert (named["message"] if isinstance(named, dict) else named) in error.fault.message
        assert "answered 200 with an error" in error.fault.message
    assert error.usage == (7, 3)


@pytest.mark.parametrize(
    ("status", "said"),
    [(201, "created"), (202, "later"), (204, "no content"), (206, "a part"), (402, "pay"), (413, "too large")],
)
def test_what_each_status_means_is_said(status: int, said: str) -> None:
    error = error_answers.refusal(status, {}, b"{}", (KEY,))
    assert (error.fault.kind, error.fault.retryable) == ("invalid_reply" if status < 300 else "refused", False)
    assert said in error.fault.message
    assert "defaults" not in error.fault.message


def test_a_parameter_that_a_model_does_not_take_may_be_the_graders() -> None:
    """Judges send a temperature of 0, which some models refuse."""
    error = error_answers.refusal(400, {}, b'{"error": "\'temperature\' must be 1"}', (KEY,))
    assert "the grader's `temperature` (None sends none)" in error.fault.message


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"choices":[%b]}' % b",".join([b"{}"] * 500_000), id="choices"),
        pytest.param(completion([{"type": "text", "text": ""}] * 80_000), id="parts"),
    ],
)
def test_many_small_parts_are_not_decoded(body: bytes) -> None:
    tracemalloc.start()
    try:
        failed(body)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 5_000_000
