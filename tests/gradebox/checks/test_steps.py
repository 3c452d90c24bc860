"""Tests of checks of an agent's tool calls and steps, from turns and from metadata."""

import json
from typing import Any

import pytest

from gradebox import StringThread
from gradebox.checks import (
    Output,
    ThreadCheck,
    Trajectory,
    called,
    called_in_order,
    max_duration_ms,
    max_steps,
    max_tokens,
    max_tool_calls,
    not_called,
    output_matches,
    output_not_produced,
    output_produced,
    output_sequence,
)


def call(name: str, number: int, **arguments: Any) -> dict[str, Any]:
    return {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def answer(number: int) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": "found"}


def assistant(content: str | None = None, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **({"tool_calls": list(calls)} if calls else {}), **more}


MEASURED = {"tokens": {"input": 20, "output": 2}, "duration_ms": 50.5}
AGENT = StringThread.from_messages(
    [
        {"role": "user", "content": "Book it"},
        assistant(
            None,
            call("search", 1, city="Paris", nights=2),
            call("search", 2, city="Rome"),
            usage={"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
            duration_ms=100,
        ),
        answer(1),
        answer(2),
        assistant(None, call("book", 3, hotel={"id": 7}, paid=True), **MEASURED),
        answer(3),
        assistant("Booked.", tokens=3, duration_ms=9.5),
    ]
)
RECORDED = StringThread(
    [("assistant", "done")],
    metadata={
        "trajectory": {
            "steps": [
                {"type": "LookupCustomer", "output": {"id": 1}, "tokens": {"input_tokens": 3, "output_tokens": 4}},
                {"output": "thinking", "tokens": {"input": 1, "output": 1, "total": 5}},
                {"type": "LookupCustomer", "output": {"id": 2}, "tokens": 0},
                {"output": [1]},
            ],
            "total_tokens": 40,
        }
    },
)
IDS: Any = lambda value: repr(value) if isinstance(value, ThreadCheck) else ""  # noqa: E731  # as pytest takes it


async def later(output: Output) -> bool:
    return False


def is_paid(output: Output) -> bool:
    return output.is_call and output.value.get("paid") is True


@pytest.mark.parametrize(
    "check",
    [
        called("search"),
        *(called("search", times=2), called("search", {"city": "Rome"}, times=1)),
        called("search", {"city": "Rome"}, exact=True),
        *(called("book", {"hotel": {"id": 7}, "paid": True}, exact=True), called("book", {}), called("pay", times=0)),
        *(not_called("pay"), not_called("text"), called_in_order(["search", "book"])),
        *(called_in_order(["search", "search", "book"]), called_in_order([]), max_tool_calls(3), max_steps(3)),
        *(max_tokens(40), max_duration_ms(160), output_produced("text", times=1), output_not_produced("pay")),
        *(output_matches(is_paid, times=1), output_matches(is_paid), output_sequence(["search", "book", "text"])),
    ],
    ids=IDS,
)
def test_what_passes(check: ThreadCheck) -> None:
    assert check(AGENT) == 1.0


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        (called("pay"), "expected a call of 'pay', found 0; called: ['search', 'search', 'book']"),
        (called("search", times=1), "expected a call of 'search' 1 times, found 2; called: 'search' with [{'city'"),
        (
            called("search", {"city": "Oslo"}),
            "expected a call of 'search' with {'city': 'Oslo'}, found 0; called: 'search' with [{'city': 'Paris'",
        ),
        (called("search", {"city": "Paris"}, exact=True), "found 0"),
        (called("book", {"paid": 1}), "found 0"),
        (called("book", {"hotel": {}}), "found 0"),
        (not_called("book"), "expected no call of 'book', found 1: [{'hotel': {'id': 7}, 'paid': True}]"),
        (
            called_in_order(["book", "search"]),
            "expected the sequence ['book', 'search'], found ['search', 'search', 'book']",
        ),
        (called_in_order(["book", "text"]), "expected the sequence"),
        (max_tool_calls(2), "expected at most 2 calls of tools, found 3"),
        (max_steps(2), "expected at most 2 steps, found 3"),
        (max_tokens(39), "expected at most 39 tokens, found 40"),
        (max_duration_ms(159.9), "expected at most 159.9 ms, found 160.0"),
        (
            output_produced("search", times=1),
            "expected an output of type 'search' 1 times, found 2; outputs: ['search'",
        ),
        (output_produced("pay"), "expected an output of type 'pay', found 0"),
        (output_produced("book", times=0), "0 times, found 1"),
        (output_not_produced("search"), "expected no output of type 'search', found 2"),
        (output_matches(is_paid, times=2), "expected an output that is_paid fits 2 times, found 1"),
        (output_sequence(["text", "book"]), "expected the sequence ['text', 'book'], found ['search', 'search'"),
    ],
    ids=IDS,
)
def test_what_fails_and_why(check: ThreadCheck, reason: str) -> None:
    score = check(AGENT)
    assert score == 0.0
    assert reason in str(score.reason)


@pytest.mark.filterwarnings("error")
def test_a_coroutine_is_no_true_answer() -> None:
    with pytest.raises(ValueError, match=r"output_matches\(fn=\) takes .* at once"):
        output_matches(lambda output: later(output))(AGENT)


def test_a_trajectory_in_the_metadata() -> None:
    trajectory = Trajectory.of(RECORDED)
    assert [output.type for output in trajectory.outputs] == ["LookupCustomer", "text", "LookupCustomer", "data"]
    assert (trajectory.total_tokens, trajectory.total_duration_ms) == (40, None)
    assert [step.tokens for step in trajectory.steps or []] == [7, 5, 0, None]
    assert max_steps(4)(RECORDED) == 1.0
    assert max_steps(3)(RECORDED) == 0.0
    assert called("LookupCustomer", {"id": 2}, times=1)(RECORDED) == 1.0
    assert output_sequence(["LookupCustomer", "LookupCustomer"])(RECORDED) == 1.0
    assert output_produced("LookupCustomer", times=2)(RECORDED) == 1.0


def test_totals_alone_stand_beside_the_turns() -> None:
    metadata = {"trajectory": {"total_tokens": 9, "total_duration_ms": 1.5}}
    thread = StringThread([("user", "q"), ("assistant", "a")], metadata)
    assert Trajectory.of(thread)[1:] == (9, 1.5)
    assert (max_steps(1)(thread), max_tokens(8)(thread), max_tokens(9)(thread)) == (1.0, 0.0, 1.0)


def test_no_steps_can_be_what_happened() -> None:
    thread = StringThread([("user", "q")], {"trajectory": {"steps": []}})
    assert (max_steps(0)(thread), not_called("x")(thread), max_tokens(0)(thread)) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("check", [max_tokens(10**9), max_duration_ms(10**9)])
def test_what_is_not_known_of_each_step_is_no_zero(check: ThreadCheck) -> None:
    thread = StringThread.from_messages([assistant("a", tokens=1, duration_ms=1), assistant("b")])
    with pytest.raises(ValueError, match="a step has no"):
        check(thread)


@pytest.mark.parametrize("check", [not_called("search"), called("search"), max_steps(9), max_tool_calls(9)])
def test_tools_that_answered_and_were_not_called_are_an_error(check: ThreadCheck) -> None:
    thread = StringThread([("assistant", "I look."), ("tool", "found"), ("assistant", "It is there.")])
    with pytest.raises(ValueError, match='no turn of the assistant has "tool_calls"'):
        check(thread)


def counted(*steps: dict[str, Any]) -> StringThread:
    """A thread of an agent whose metadata has steps."""
    return StringThread.from_messages(AGENT.raw_messages(), {"trajectory": {"steps": list(steps)}})


def test_recorded_steps_replace_turns_with_calls() -> None:
    thread = counted({"tokens": 10, "duration_ms": 1}, {"output": "done", "tokens": 20, "duration_ms": 2})
    assert (max_tokens(30)(thread), max_tokens(29)(thread)) == (1.0, 0.0)
    assert (max_steps(2)(thread), max_duration_ms(2)(thread)) == (1.0, 0.0)
    typed = counted({"type": "lookup", "output": {}})
    assert (called("lookup")(typed), not_called("search")(typed)) == (1.0, 1.0)


@pytest.mark.parametrize("check", [not_called("search"), max_tool_calls(0), output_not_produced("search")])
def test_recorded_steps_that_do_not_say_which_are_calls_have_no_score(check: ThreadCheck) -> None:
    with pytest.raises(ValueError, match=r'no step in .* has a "type", and the messages have calls'):
        check(counted({"output": "calls", "tokens": 10}, {"output": "done", "tokens": 20}))


@pytest.mark.parametrize("check", [not_called("search"), max_steps(9), output_not_produced("x"), max_tokens(9)])
def test_without_any_step_there_is_no_score(check: ThreadCheck) -> None:
    with pytest.raises(ValueError, match="no step to check"):
        check(StringThread([("user", "q")]))


def test_a_call_without_a_name_is_an_error() -> None:
    thread = StringThread.from_messages([assistant(None, {"id": "c", "function": {"arguments": "{}"}})])
    with pytest.raises(ValueError, match="has no name"):
        not_called("search")(thread)


def test_arguments_that_are_no_json_fit_nothing() -> None:
    broken = {"id": "c", "function": {"name": "search", "arguments": '{"q": '}}
    thread = StringThread.from_messages([assistant(None, broken)])
    assert called("search")(thread) == 1.0
    score = called("search", {})(thread)
    assert score == 0.0
    assert """with ['{"q": ']""" in str(score.reason)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ([], "must be an object"),
        ({"stepz": []}, "has the member 'stepz'"),
        ({"steps": {}}, "must be a list"),
        ({"steps": [1]}, r'\["steps"\]\[0\] must be an object'),
        ({"steps": [{"type": 1}]}, '"type" of'),
        ({"steps": [{"tokens": {"input": 1}}]}, 'both "input" and "output"'),
        ({"steps": [{"tokens": -1}]}, "at least 0"),
        ({"steps": [{"duration_ms": True}]}, "at least 0"),
        ({"total_tokens": "many"}, "total_tokens must be a number"),
    ],
)
def test_a_trajectory_of_another_form_is_refused(told: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        max_steps(5)(StringThread([("assistant", "a")], {"trajectory": told}))


def test_reasons_are_bounded() -> None:
    calls = [call("n" * 5_000, number, text="x" * 5_000) for number in range(200)]
    thread = StringThread.from_messages([assistant(None, *calls)])
    for check in (called("search"), called("n" * 5_000, {"a": 1}), called_in_order(["a"] * 1_000), max_tool_calls(1)):
        assert len(str(check(thread).reason)) < 1_500


@pytest.mark.parametrize(
    "make",
    [
        lambda: called(""),
        lambda: called("a", times=-1),
        lambda: called("a", [1]),  # type: ignore[arg-type]
        lambda: called("a", exact=True),
        lambda: called("a", {"x": 1}, exact="no"),  # type: ignore[arg-type]
        lambda: called_in_order("ab"),
        lambda: output_sequence([""]),
        lambda: max_duration_ms(float("nan")),
        lambda: output_matches("x"),  # type: ignore[arg-type]
        lambda: output_matches(later),
    ],
)
def test_what_is_no_check_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="takes"):
        make()
