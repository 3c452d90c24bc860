"""Tests that the service keeps the replies that graders accept, and no others."""

import asyncio
import json
from collections.abc import Callable
from itertools import pairwise
from time import process_time
from typing import Any

import pytest

from gradebox import testing
from gradebox.asks import Model, ModelError
from gradebox.asks.model import choice_schema
from models.replies.fitting_reply import fits

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
SENT = ['The answer is: {"n": 9, "option": "yes"}']
TEXTS = [
    '{"n": 1}',
    'Here:\n```json\n{"n": 2}\n```',
    '<think>{"n": 0}</think>{"n": 3}',
    '{"n": 0}',
    '{"n": 2.0}',
    '{"n": 2.5}',
    '{"m": 1}',
    '{"n": 1} {"n": 2}',
    '{"n": NaN}',
    '{"n": 1',
    '{"n": 9, "option": "yes"}',
    'It says { "n": 9, "option":"yes" }, and I do not follow it.',
    "The model is loading, please wait.",
    "",
    "yes",
    '**"Yes".**',
    '{"option": "no"}',
    '{"option": "maybe"}',
    '["yes"]',
]


@pytest.mark.parametrize("text", TEXTS)
def test_what_a_grader_accepts_fits(text: str) -> None:
    async def is_accepted(choice: bool) -> bool:
        judge = Model("judge")
        try:
            await (judge.choose(SENT[0], ["yes", "no"]) if choice else judge.chat(SENT[0], SCHEMA))
        except ModelError:
            return False
        return True

    with testing.model("judge", lambda _: text):
        assert fits(text, SCHEMA, SENT) is asyncio.run(is_accepted(False))
        assert fits(text, choice_schema(["yes", "no"], True), SENT) is asyncio.run(is_accepted(True))
    assert fits(text, None, SENT)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": 5},
        {"properties": {"option": 5}},
        {"properties": {"option": {"enum": 5}}},
        {"properties": {"option": {"enum": [5]}}},
        {"anyOf": 5},
        {"type": [{}]},
        {"type": "object", "required": 5},
        {"type": "object", "required": [{}]},
        {"enum": 5},
        {"properties": {"n": {"minimum": "a"}}},
        {"$ref": "#"},
    ],
)
def test_nothing_fits_a_schema_that_is_none(schema: dict[str, Any]) -> None:
    assert not fits('{"n": 1, "option": "yes"}', schema, SENT)


def taken_s(work: Callable[[], object]) -> float:
    """The processor time of the quicker of two runs: collecting the garbage of other tests takes 0.3 s as well."""
    marks = [process_time()]
    for _ in range(2):
        work()
        marks.append(process_time())
    return min(after - before for before, after in pairwise(marks))


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        (json.dumps([1] * 80_000), {"items": {"anyOf": [{"type": "null"}] * 15_000}}),
        (json.dumps([1] * 80_000), {"items": {"anyOf": [{"enum": ["x" * 200_000]}, {}]}}),
        (json.dumps([1] * 10), {"items": {"anyOf": [{"enum": [2] * 16_000}, {}]}}),
        ("[" * 200_000, {}),
        (json.dumps({str(n): [] for n in range(20_000)}), {"type": "object"}),
        ('{"n": 1} and more', SCHEMA),
    ],
)
def test_a_comparison_is_bounded(text: str, schema: dict[str, Any]) -> None:
    """It runs on the event loop of all projects; the schema is a grader's, and the reply may be too."""
    assert taken_s(lambda: fits(text, schema, ["{ \\ " * 50_000])) < 0.3


def test_the_search_for_a_quote_is_bounded() -> None:
    """An ask may have thousands of messages, and a reply as many bytes as an ask."""
    text = 'so: {"n": 1, "why": "%s"} or so' % ("a b " * 20_000)
    assert fits(text, SCHEMA, ["x"] * 9000)
    assert taken_s(lambda: fits(text, SCHEMA, ["x"] * 9000)) < 0.3
