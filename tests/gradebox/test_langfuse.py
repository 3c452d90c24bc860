"""Langfuse's code evaluators in this process; tests/api/dialects/langfuse has them in sandboxes."""

import enum
from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest

from gradebox.langfuse import Evaluator

PAYLOAD: dict[str, Any] = {"observation": {"input": None, "output": "o", "metadata": {"a": 1}, "toolCalls": []}}


def answer(source: str, payload: Mapping[str, Any] = PAYLOAD) -> dict[str, Any]:
    return Evaluator(source).answer(payload)


def returned(expression: str, before: str = "") -> dict[str, Any]:
    """What comes of one score with this value."""
    source = f"{before}\ndef evaluate(ctx):\n    return {{'scores': [{{'name': 's', 'value': {expression}}}]}}"
    return answer(source)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2", 2),
        ("2**70", float(2**70)),
        ("True", True),
        ("'a\\ud800'", "a?"),
        ("datetime.date(2026, 1, 2)", str(date(2026, 1, 2))),
        ("decimal.Decimal('0.5')", "0.5"),
        ("Colour.RED", "red"),
        ("Level.HIGH", 3),
        ("{1: (2, None), 'x': {3}}", {"1": [2, None], "x": "{3}"}),
    ],
)
def test_what_json_has_no_word_for_is_its_text(expression: str, value: object) -> None:
    before = (
        "import datetime, decimal, enum\n"
        "class Colour(str, enum.Enum):\n    RED = 'red'\n"
        "class Level(enum.IntEnum):\n    HIGH = 3\n"
    )
    assert returned(expression, before) == {"scores": [{"name": "s", "value": value}]}
    assert not isinstance(returned(expression, before)["scores"][0]["value"], enum.Enum)


@pytest.mark.parametrize("expression", ["float('nan')", "float('-inf')", "10**400", "a"])
def test_what_json_cannot_hold_is_invalid(expression: str) -> None:
    error = returned(expression, "a = []\na.append(a)")["error"]
    assert error["code"] == "INVALID_RESULT" and "scores[0]" in error["message"]


def test_members_that_langfuse_has_no_name_for_are_left_out() -> None:
    source = (
        "def evaluate(ctx):\n"
        "    return {'scores': [{'name': 's', 'value': 1, 'data_type': 'NUMERIC', 'config_id': 'c', 'comment': None,"
        " 'extra': object()}], 'more': 1}"
    )
    assert answer(source) == {"scores": [{"name": "s", "value": 1, "dataType": "NUMERIC", "configId": "c"}]}


def test_messages_name_the_line_of_the_source() -> None:
    deep = "import json\n\ndef look(text):\n    return json.loads(text)\n\ndef evaluate(ctx):\n    return look('{')\n"
    assert answer(deep)["error"]["message"].endswith("(line 4)")
    bad = "class Bad(Exception):\n    def __str__(self):\n        raise ValueError\ndef evaluate(ctx):\n    raise Bad\n"
    assert answer(bad)["error"]["message"] == "Bad: (its message could not be read) (line 5)"
    assert answer("def evaluate(ctx): exec('1 +')")["error"]["message"].endswith("(line 1)")


def test_the_context_has_every_member() -> None:
    call = {"id": "i", "name": "n", "arguments": "{}", "type": "function", "index": 2}
    payload = {
        "observation": {"input": [1], "output": {"a": None}, "metadata": "m", "toolCalls": [call, {"name": "bare"}]},
        "experiment": {"itemExpectedOutput": "e", "itemMetadata": {"k": 1}},
    }
    source = (
        "def evaluate(ctx):\n    o, e = ctx.observation, ctx.experiment\n"
        "    calls = [vars(call) for call in o.tool_calls]\n"
        "    seen = repr((o.input, o.output, o.metadata, calls[0], calls[1]['id'], e.item_expected_output,"
        " e.item_metadata))\n"
        "    return EvaluationResult([Score(seen, 'seen')])"
    )
    seen = answer(source, payload)["scores"][0]["value"]
    assert seen == repr(([1], {"a": None}, "m", call, None, "e", {"k": 1}))
    outside = answer("def evaluate(ctx):\n    return {'scores': [Score(str(ctx.experiment), 's')]}")
    assert outside["scores"][0]["value"] == "None"
