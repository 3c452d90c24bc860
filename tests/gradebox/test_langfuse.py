"""Tests of Langfuse's code evaluators in this process. tests/api/dialects/langfuse runs them in sandboxes."""

import enum
from collections.abc import Mapping
from datetime import date
from random import Random
from typing import Any

import pytest

from gradebox.langfuse import Evaluator

PAYLOAD: dict[str, Any] = {"observation": {"input": None, "output": "o", "metadata": {"a": 1}, "toolCalls": []}}


def answer(source: str, payload: Mapping[str, Any] = PAYLOAD) -> dict[str, Any]:
    return Evaluator(source).answer(payload)


def returned(expression: str, before: str = "") -> dict[str, Any]:
    """The answer for one score with this value."""
    source = f"{before}\ndef evaluate(ctx):\n    return {{'scores': [{{'name': 's', 'value': {expression}}}]}}"
    return answer(source)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2", 2),
        ("random.Random(1).random()", Random(1).random()),
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
        "import datetime, decimal, enum, random\n"
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
        "    seen = repr((o.input, o.output, o.metadata, calls[0], calls[1]['name'], e.item_expected_output,"
        " e.item_metadata))\n"
        "    return EvaluationResult([Score(seen, 'seen')])"
    )
    seen = answer(source, payload)["scores"][0]["value"]
    assert seen == repr(([1], {"a": None}, "m", call, "bare", "e", {"k": 1}))
    outside = answer("def evaluate(ctx):\n    return {'scores': [Score(str(ctx.experiment), 's')]}")
    assert outside["scores"][0]["value"] == "None"


OLDER_TEMPLATE = """
from dataclasses import asdict, dataclass, replace
from typing import Any

@dataclass
class Score:
    value: Any
    name: str
    data_type: str | None = None
    comment: str | None = None

@dataclass
class EvaluationResult:
    scores: list[Score]

def evaluate(ctx) -> EvaluationResult:
    score = Score(ctx.observation.output, "s", data_type="TEXT")
    return EvaluationResult(scores=[replace(score, comment=str(sorted(asdict(ctx.observation))))])
"""


def test_evaluators_that_define_the_classes_themselves_run() -> None:
    """Langfuse's template once began like this."""
    comment = "['input', 'metadata', 'output', 'tool_calls']"
    assert answer(OLDER_TEMPLATE) == {"scores": [{"name": "s", "value": "o", "dataType": "TEXT", "comment": comment}]}


def test_the_classes_are_dataclasses_with_defaults() -> None:
    source = (
        "from dataclasses import replace\n"
        "def evaluate(ctx):\n"
        "    assert Score(1, 'a') == Score(1, 'a') and EvaluationResult().scores == []\n"
        "    again = EvaluationContext(observation=ctx.observation, experiment=None)\n"
        "    calls = [*again.observation.tool_calls, ToolCall(name='x')]\n"
        "    return EvaluationResult([replace(Score('', 'calls'), value=str(calls))])"
    )
    told = answer(source, {"observation": {"toolCalls": [{"id": None, "name": "n"}, "odd"]}, "experiment": "odd"})
    empty = "arguments=None, type='', index=0"
    calls = ", ".join(f"ToolCall(id='', name={name!r}, {empty})" for name in ("n", "", "x"))
    assert told == {"scores": [{"name": "calls", "value": f"[{calls}]"}]}


def test_dataclasses_and_names_of_members_in_metadata() -> None:
    source = (
        "from dataclasses import dataclass\n"
        "@dataclass\nclass Found:\n    n: int\n    data_type: str = 'd'\n    none: object = None\n"
        "def evaluate(ctx):\n"
        "    metadata = {'f': [Found(3)], True: 1, None: 2, 3: 4, 'a\\ud800': 5}\n"
        "    return EvaluationResult([Score(1, 's', metadata=metadata)])"
    )
    metadata = {"f": [{"n": 3, "dataType": "d"}], "true": 1, "null": 2, "3": 4, "a?": 5}
    assert answer(source) == {"scores": [{"name": "s", "value": 1, "metadata": metadata}]}


def test_messages_can_be_sent_whatever_they_say() -> None:
    half = answer(
        "def evaluate(ctx):\n    raise ValueError(ctx.observation.output)", {"observation": {"output": "a\ud800"}}
    )
    assert half["error"]["message"] == "ValueError: a? (line 2)"
    long = answer("def evaluate(ctx):\n    raise type('E' * 1_000_000, (Exception,), {})('x' * 1_000_000)")
    assert len(long["error"]["message"]) < 5000
