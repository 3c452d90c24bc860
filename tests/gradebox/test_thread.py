"""Tests of threads, and of objects that are nearly threads."""

from typing import Any

import pytest

from gradebox.thread import StringThread, StringTurn
from gradebox.thread_forms import ROLES, AssistantTurn, ToolCall

CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "gradebox"}'}}
AGENT: list[dict[str, Any]] = [
    {"role": "user", "content": "look it up"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "found"},
    {"role": "assistant", "content": "It is there."},
]


def test_pairs_are_turns_in_whichever_sequence_they_come() -> None:
    pairs = [("user", "q"), ["assistant", "a"], StringTurn("tool", "t")]
    assert StringThread(pairs).get_turns() == [("user", "q"), ("assistant", "a"), ("tool", "t")]  # type: ignore[arg-type]


@pytest.mark.parametrize("role", sorted(ROLES))
def test_each_known_role_is_taken(role: str) -> None:
    assert StringThread([(role, "x")]).get_turns()[0].role == role


@pytest.mark.parametrize(
    ("turns", "message"),
    [
        ([{"role": "user", "content": "q"}], r"turns\[0\] is a dict.*StringThread.from_messages"),
        (["ab"], r"turns\[0\] must be a pair of strings, \(role, content\), and is 'ab'"),
        ([("user", "q"), ("assistant", None)], r"turns\[1\] must be a pair of strings"),
        ([("user", "q", "r")], r"turns\[0\] must be a pair"),
        ([("Assistant", "a")], r"turns\[0\]: the role 'Assistant' is unknown: write 'assistant'"),
        ([("model", "a")], "'model' is unknown: write 'assistant'"),
        ([("Human", "a")], "'Human' is unknown: write 'user'"),
        (
            [("judge", "a")],
            "'judge' is unknown: roles are assistant, developer, document, function, system, tool, user",
        ),
    ],
)
def test_what_is_nearly_a_turn_is_refused(turns: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StringThread(turns)


def test_messages_are_read_whole() -> None:
    thread = StringThread.from_messages(AGENT, {"answer": "there"})
    assert thread.get_turns()[1] == ("assistant", "")
    assert thread.completion() == "It is there."
    assert thread.raw_messages() == AGENT
    call = ToolCall("search", {"q": "gradebox"}, "found", "c1")
    assert thread.steps == [AssistantTurn("", [call]), AssistantTurn("It is there.", [])]
    assert thread.tool_calls == [call]
    assert StringThread.from_json(thread.to_json()) == thread


ODD_CALLS = ["x", {"function": 4}, {"name": "g", "arguments": [1]}]


def _calling(*ids: str) -> dict[str, Any]:
    calls = [{"id": each, "function": {"name": "f", "arguments": "{}"}} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _answering(identity: str, content: str) -> dict[str, str]:
    return {"role": "tool", "tool_call_id": identity, "content": content}


@pytest.mark.parametrize(
    ("messages", "results"),
    [
        ([_calling("a"), _answering("a", "1"), _calling("a"), _answering("a", "2")], ["1", "2"]),
        ([_calling("a", "a"), _answering("a", "1"), _answering("a", "2")], ["1", "2"]),
        ([_calling("a", "b"), _answering("b", "1"), _answering("a", "2")], ["2", "1"]),
        ([_calling("a"), _calling("a"), _answering("a", "1")], [None, "1"]),
        ([_calling("a"), _answering("a", "1"), _answering("a", "2")], ["1"]),
        ([_answering("a", "1"), _calling("a")], [None]),
    ],
)
def test_a_result_belongs_to_the_latest_call_with_its_id_that_has_none(
    messages: list[dict[str, Any]], results: list[str | None]
) -> None:
    assert [call.result for call in StringThread.from_messages(messages).tool_calls] == results


@pytest.mark.parametrize(
    ("members", "calls"),
    [
        ({"tool_calls": [{"function": {"name": "f", "arguments": "{q: 1"}}]}, [ToolCall("f", "{q: 1")]),  # no JSON
        ({"content": None, "function_call": {"name": "f", "arguments": "{}"}}, [ToolCall("f", {})]),  # the older kind
        ({"content": "", "tool_calls": ODD_CALLS}, [ToolCall("", None), ToolCall("g", [1])]),
    ],
)
def test_odd_tool_calls_do_not_fail(members: dict[str, Any], calls: list[ToolCall]) -> None:
    assert StringThread.from_messages([{"role": "assistant", **members}]).tool_calls == calls


@pytest.mark.parametrize("text", ["print(6*7)", "42"])
def test_the_input_of_a_custom_tool_is_its_arguments(text: str) -> None:
    call = {"id": "c", "type": "custom", "custom": {"name": "run", "input": text}}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    thread = StringThread.from_messages([asked, {"role": "tool", "tool_call_id": "c", "content": "42"}])
    assert thread.tool_calls == [("run", text, "42", "c")]


def test_a_plain_thread_has_steps_and_no_calls() -> None:
    thread = StringThread([("user", "q"), ("assistant", "a")])
    assert (thread.steps, thread.tool_calls) == ([AssistantTurn("a", [])], [])
    assert thread.raw_messages() == [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]


def test_parts_are_text_and_images_are_marks() -> None:
    parts = [
        {"type": "text", "text": "see "},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        {"type": "output_text", "text": " here"},
        "!",
    ]
    thread = StringThread.from_messages([{"role": "user", "content": parts}])
    assert thread.last_content() == "see <|image|> here!"
    assert thread.get_fragments()[0][1][:2] == [parts[0], {"type": "image", "url": "https://x/y.png"}]


def test_a_turn_more_keeps_the_messages_before_it() -> None:
    longer = StringThread.from_messages(AGENT).user("thanks").assistant("welcome")
    said = [{"role": "user", "content": "thanks"}, {"role": "assistant", "content": "welcome"}]
    assert longer.raw_messages() == AGENT + said
    assert longer.tool_calls[0].result == "found"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ({"role": "assistant", "content": None}, '"content" is missing or null'),
        ({"role": "assistant"}, '"content" is missing or null'),
        (
            {"role": "user", "content": ["a", {"type": "thinking", "thinking": "hm"}]},
            "\"content\"[1] is of the type 'thinking', which is not read: leave it out, or write it as text. The types "
            "are text, input_text, output_text, refusal, image_url,",
        ),
        ({"role": "user", "content": [{"text": "q"}]}, '[0] must be a part such as {"type": "text", "text": …}'),
        ({"role": "user", "content": [4]}, '"content"[0] must be a part such as {"type"'),
        ({"role": "user", "content": [{"type": "text"}]}, '"content"[0]: "text" must be a string, and is null'),
        ({"role": "user", "content": {"text": "q"}}, '"content" must be a string or a list of parts, and is an object'),
        ({"content": "q"}, 'must be an object with "role" and "content"'),
        ({"from": "human", "value": "q"}, 'write {"role": "user", "content": …} for {"from": "human"'),
        ("q", 'must be an object with "role" and "content"'),
    ],
)
def test_what_is_nearly_a_message_is_refused(message: Any, told: str) -> None:
    with pytest.raises(ValueError) as raised:
        StringThread.from_messages([message])
    assert told in str(raised.value)
    assert '"messages"[0]' in str(raised.value)


def test_a_refusal_is_what_the_assistant_said() -> None:
    message = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
    assert StringThread.from_messages([message]).completion() == "I cannot help with that."


def test_members_that_no_form_has_are_refused_or_become_metadata_beside_its_own() -> None:
    row = {"prompt": "q", "completion": "4", "answer": "4", "metadata": {"level": 1}}
    with pytest.raises(ValueError, match='no member "answer": put it into "metadata"'):
        StringThread.from_object(row)
    assert StringThread.from_object(row, keep_unknown=True).metadata == {"answer": "4", "level": 1}
    own = {"completion": "4", "answer": "outside", "metadata": {"answer": "inside"}}
    assert StringThread.from_object(own, keep_unknown=True).metadata == {"answer": "inside"}


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_have_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"{text} is no JSON"):
        StringThread.from_json('{"completion": "4", "metadata": {"a": ' + text + "}}")
