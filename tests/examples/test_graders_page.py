"""Tests of the graders in docs/graders.md."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

import gradebox

PAGE = Path(__file__).parents[2] / "docs" / "graders.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
CONTAINS, _, REASON, VALUES, NOT_ALWAYS, GROUPS, UNSAFE, SAFE = BLOCKS
TESTS = {"tests": [{"call": "add(2, 3)", "expect": 5}]}
ALWAYS = "class Same:\n    __eq__ = lambda a, b: True\ndef add(a, b):\n    return Same()\n"


def score(source: str, completion: str, metadata: dict[str, Any] | None = None) -> float:
    namespace: dict[str, Any] = {}
    exec(compile(source, "grader", "exec"), namespace)
    return float(asyncio.run(namespace["grade"](gradebox.StringThread([("assistant", completion)], metadata))))


def test_the_first_grader() -> None:
    assert score(CONTAINS, "it is 4", {"answer": "4"}) == 1
    assert score(CONTAINS, "it is 5", {"answer": "4"}) == 0


def test_a_score_with_a_reason() -> None:
    assert score(REASON, "a@b") == 1
    assert score(REASON, "nothing") == 0


def test_a_score_with_values() -> None:
    assert score(VALUES, "Answer: 4") == 1
    assert score(VALUES, "4") == 0.5


def test_a_grader_that_does_not_always_apply() -> None:
    assert score(NOT_ALWAYS, "It is 4.", {"documents": ["4", "5"]}) == 0.5
    with pytest.raises(gradebox.NotApplicable, match="no documents"):
        score(NOT_ALWAYS, "It is 4.")


def test_a_grader_of_groups() -> None:
    namespace: dict[str, Any] = {}
    exec(compile(GROUPS, "grader", "exec"), namespace)
    threads = [gradebox.StringThread([("assistant", said)]) for said in ("abc", "a", "ab")]
    assert asyncio.run(namespace["grade"](threads)) == [0.0, 1.0, 0.5]


def test_code_can_forge_its_score_inside_grade_and_not_in_a_process_of_its_own() -> None:
    assert score(UNSAFE, ALWAYS) == 1
    assert score(SAFE, ALWAYS, TESTS) == 0
    assert score(SAFE, "def add(a, b):\n    return a + b", TESTS) == 1
    assert score(SAFE, "print('[5]')\nimport os; os._exit(0)", TESTS) == 0
    assert score(SAFE, "while True: pass", TESTS) == 0
