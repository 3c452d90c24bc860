"""Tests of the judges in `examples/judges`, proved and scored in real sandboxes."""

import inspect
import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gradebox.outcome import completion_details_of
from gradebox.source import extract
from sandbox.pool.pool import Pool
from tests.models import test_kinds
from tests.models.scoring.test_asking_scorer import Scripted, proved_and_scored, text

FOLDER = Path(__file__).parents[2] / "examples" / "judges"
README = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
THREAD: dict[str, Any] = {
    "prompt": "Where is my parcel?",
    "completion": "4",
    "metadata": {"answer": "5", "documents": ["on topic", "something else"]},
}
GROUP = {"prompt": "Where is my parcel?", "completions": ["Look yourself.", "Sorry! It comes on Monday.", "?"]}
SCORES = {
    "binary": 1.0,
    "direct": 1.0,
    "several_criteria": 1.0,
    "ranking": 0.5,
    "faithful": 0.5,
    "relevant_documents": 0.5,
    "relevant_answer": 1.0,
    "combined": 0.75 * 1.0 + 0.25 * 1.0,
    "own_prompt": 0.5,
    "compared": 0.8,
    "checked": 1.0,
    "reward_server": 0.25,
}


def replied(request: dict[str, Any]) -> dict[str, Any]:
    members = request.get("schema", {}).get("properties", {})
    if request["ask"] == "endpoint":
        return {"reply": {"reward": 0.25, "metadata": {"reason": "a quarter"}}}
    if request["ask"] == "grader":
        return {"reply": {"score": 1.0}}
    if "option" in members and members["option"]["enum"][0].startswith("response"):
        shown = re.findall(r"\[begin response \d+ \w+\]\n(.*?)\n\[end", request["messages"][-1]["content"])
        return text(json.dumps({"reasoning": "r", "option": f"response {1 + shown.index(max(shown, key=len))}"}))
    if "option" in members:  # the same option in any order
        options = set(members["option"]["enum"])
        chosen = options & {"Well", "Yes", "Excellent"}
        return text(json.dumps({"reasoning": "r", "option": chosen.pop()}))
    if "explanation" in members:
        return text('{"explanation": "one off", "score": "nearly"}')
    if "verdict" in members or "score" in members:
        return text('{"reasoning": "it is", "score": "PASS"}')
    return test_kinds.replied(request)


def test_there_is_one_of_each() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == SCORES.keys()
    for name in SCORES:
        summary = str(inspect.getdoc(import_module(f"examples.judges.{name}"))).splitlines()[0]
        assert summary.endswith("."), name
        assert f"| `judges/{name}.py` |" in README


@pytest.mark.sandbox
@pytest.mark.parametrize("name", SCORES)
def test_an_example_is_valid_and_scores(name: str, pool: Pool) -> None:
    source = extract(import_module(f"examples.judges.{name}").grade)
    line = json.dumps(GROUP if name == "ranking" else THREAD).encode()
    outcome = proved_and_scored(pool, source, Scripted(replied), line)
    assert outcome.score == pytest.approx(SCORES[name]), outcome
    if name == "ranking":
        assert outcome.scores == [0.5, 1.0, 0.0]
        assert [(details or {})["ranking"] for details in completion_details_of(outcome)] == [2, 1, 3]
