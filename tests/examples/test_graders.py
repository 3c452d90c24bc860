import asyncio
from importlib import import_module
from typing import Any

import pytest

from examples.graders import code_execution
from gradebox import NotApplicable, StringThread, testing
from gradebox.source import extract
from tests.gradebox.source.extracted import run

TESTS = [{"call": "add(2, 3)", "expect": 5}, {"call": "add(0.5, 0.5)", "expect": 1}]


def grade(name: str, completion: str, **metadata: Any) -> tuple[float, str | None]:
    thread = StringThread([("user", "?"), ("assistant", completion)], metadata)
    score = asyncio.run(import_module(f"examples.graders.{name}").grade(thread))
    return float(score), getattr(score, "reason", None)


@pytest.mark.parametrize(
    ("completion", "score"), [("Paris", 1), ("  paris.\n", 1), ("PARIS", 1), ("It is Paris", 0), ("", 0)]
)
def test_exact_match(completion: str, score: float) -> None:
    assert grade("exact_match", completion, answer="Paris")[0] == score


def test_exact_match_of_a_thread_without_a_completion() -> None:
    thread = StringThread([("user", "?")], {"answer": "Paris"})
    assert asyncio.run(import_module("examples.graders.exact_match").grade(thread)) == 0


def test_regex_match_shows_what_it_found() -> None:
    assert grade("regex_match", "so\n#### 4", pattern=r"^#### \d") == (1, "found '#### 4'")
    assert grade("regex_match", "four", pattern=r"^#### \d") == (0, r"nothing matches ^#### \d")


@pytest.mark.parametrize(
    ("completion", "score", "reason"),
    [
        ('{"name": "Ada", "age": 36}', 1, "all keys are there"),
        ('Sure:\n```json\n{"name": "Ada", "age": 36.5}\n```', 1, "all keys are there"),
        ('{"name": "Ada", "age": "36"}', 0.5, "age is no number"),
        ('{"name": null, "age": true}', 0, "name is no string; age is no number"),
        ('{"age": 36}', 0.5, "name is missing"),
        ("{not json} {}", 0, "name is missing; age is missing"),
        ("name: Ada", 0, "there is no JSON object in the completion"),
        ("{" * 100_000, 0, "there is no JSON object in the completion"),
        ('{"a":' * 100_000, 0, "there is no JSON object in the completion"),
    ],
)
def test_json_shape(completion: str, score: float, reason: str) -> None:
    assert grade("json_shape", completion, required={"name": "string", "age": "number"}) == (score, reason)


def test_keywords_are_whole_words_in_any_case() -> None:
    keywords = ["Straße", "c++", "art"]
    assert grade("keywords", "STRASSE, C++ and art", keywords=keywords) == (1, "all keywords are there")
    score, reason = grade("keywords", "Straße party", keywords=keywords)
    assert (round(score, 3), reason) == (0.333, "missing: c++, art")


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ("so 1200 + 34.\n#### 1234", 1),
        *(("#### 1,234", 1), ("#### $1,234.00", 1), ("####1234 apples.", 1), ("#### 5\nno, wait\n#### 1234", 1)),
        *(("the answer is 1234.", 0.5), ("1234 is wrong, so\n#### 1235", 0), ("#### -1234", 0), ("twelve hundred", 0)),
        ("", 0),
    ],
)
def test_gsm8k_answer(completion: str, score: float) -> None:
    assert grade("gsm8k_answer", completion, answer="1234")[0] == score


def test_gsm8k_answer_takes_a_whole_solution_for_an_answer() -> None:
    assert grade("gsm8k_answer", "#### 7", answer="7 apples")[0] == 1


WRITES = "import os\nfor n in range(3, 20):\n    try: os.write(n, b'[1]\\n[1]\\n')\n    except OSError: pass"
RIGHT = "def add(a, b):\n    return a + b"


@pytest.mark.parametrize(
    ("code", "score", "reason"),
    [
        (RIGHT, 1, "all tests pass"),
        (f"{RIGHT}\nprint('junk' * 9999)\nprint('{{\"value\": 0}}')", 1, "all tests pass"),
        ("def add(a, b):\n    return int(a + b)", 1, "all tests pass"),
        ("def add(a, b):\n    return 5", 0.5, "add(0.5, 0.5) gave 5, not 1"),
        ("def add(a, b):\n    return a - b", 0, "add(2, 3) gave -1, not 5"),
        ("def add(a, b):\n    return a + c", 0, "name 'c' is not defined"),
        ("def add(a, b)\n    return a + b", 0, "SyntaxError"),
        ("import sys\nsys.exit(0)", 0, "only 0 of 2 calls were answered: the code ended with status 0"),
        ("import os\nos._exit(0)", 0, "only 0 of 2 calls were answered"),
        ("class Same:\n    __eq__ = lambda a, b: True\ndef add(a, b):\n    return Same()", 0, "only 0 of 2 calls"),
        ("import json\njson.dumps = lambda value: 'passed'\ndef add(a, b):\n    return 0", 0, "only 0 of 2 calls"),
        (WRITES, 0, "wrote into"),
        ("while True:\n    pass", 0, "only 0 of 2 calls were answered: the code took longer than 2 s"),
        ("def add(a, b):\n    return a + b if a == 2 else input()", 0.5, "EOFError"),
    ],
)
def test_code_execution(code: str, score: float, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "took longer" not in reason:  # on a busy machine, an interpreter may need two seconds to start
        monkeypatch.setattr(code_execution, "TIMEOUT_S", 60.0)
    found, why = grade("code_execution", f"Here:\n```python\n{code}\n```\n", tests=TESTS)
    assert found == score, why
    assert why is not None and reason in why


def test_code_execution_needs_a_code_block() -> None:
    assert grade("code_execution", RIGHT, tests=TESTS) == (0, "there is no code block in the completion")


@pytest.mark.parametrize(
    ("name", "metadata"),
    [
        ("exact_match", {"answer": "4"}),
        ("regex_match", {"pattern": "4"}),
        ("json_shape", {"required": {"a": "number"}}),
        ("keywords", {"keywords": ["4"]}),
        ("gsm8k_answer", {"answer": "4"}),
        ("code_execution", {"tests": TESTS}),
    ],
)
def test_uploaded_sources_need_nothing_else(name: str, metadata: dict[str, Any], tmp_path: Any) -> None:
    source = extract(import_module(f"examples.graders.{name}").grade)
    completion = f"#### 4\n```python\n{RIGHT}\n```\n{{}}"
    assert run(tmp_path, source, [completion], metadata) == [grade(name, completion, **metadata)[0]]


def test_explained_code_asks_a_model() -> None:
    with testing.model("small-judge", replies=['{"reasoning": "It names the loop.", "option": "yes"}']) as asked:
        assert grade("explained_code", "A loop: `for`", task="code") == (1, "It names the loop.")
    assert "A loop: `for`" in asked[0]["messages"][-1]["content"]
    with pytest.raises(NotApplicable):
        grade("explained_code", "4", task="maths")
