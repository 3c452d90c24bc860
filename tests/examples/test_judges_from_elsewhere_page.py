"""Tests that each row of docs/judges-from-elsewhere.md runs."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gradebox
from examples.model_server import ModelServer, Script
from gradebox import Client, Score, StringThread, checks, evaluators, judges, testing
from gradebox.outcome import Outcome
from gradebox.reduction import reduced
from gradebox.trials import trials
from tests.gradebox.conftest import Service, scored
from tests.models.test_kinds import replied

PAGE = (Path(__file__).parents[2] / "docs" / "judges-from-elsewhere.md").read_text(encoding="utf-8")
SECTIONS = {
    section.split("\n", 1)[0]: [
        snippet
        for row in re.findall(r"^\| (?!there|---).*? \| (.*) \|$", section, re.MULTILINE)
        for snippet in re.findall(r"`([^`]+)`", row)
        if "(" in snippet
    ]
    for section in PAGE.split("\n## ")[1:]
}
JUDGES = [snippet for name in ("unitxt", "EvalAssist", "Adaptive") for snippet in SECTIONS[name]]
FEEDBACK = [snippet for snippet in SECTIONS["afnio"] if snippet.startswith(("batch.", "client."))]
THREAD = StringThread(
    [("user", "Why?"), ("assistant", "4")],
    {"answer": "4", "question": "?", "criterion": "Is it a number?", "found": "d", "documents": ["d", "e"]},
)


def answered(request: dict[str, Any]) -> Any:
    """The reply of a model that takes the first option and approves all else."""
    members = request.get("schema", {}).get("properties", {})
    if "persona_name" in members:
        return {"persona_name": "Ann", "persona_description": "an editor"}
    if "option" in members:
        told = {"reasoning": "r", "option": members["option"]["enum"][0], "feedback": ""}
        return {name: told[name] for name in members}
    if "verdict" in members or "score" in members:
        return {"reasoning": "r", "score": "PASS"}
    return json.loads(replied(request)["reply"]["text"]) if members else "so it is"


def test_every_section_has_its_rows() -> None:
    rows = {name: len(section) for name, section in SECTIONS.items()}
    assert rows == {"unitxt": 9, "EvalAssist": 7, "Adaptive": 5, "afnio": 7, "Puck": 7}


@pytest.mark.parametrize("snippet", [snippet for snippet in JUDGES if not snippet.startswith("batch.")])
def test_a_judge_scores(snippet: str) -> None:
    made = eval(snippet, {name: getattr(judges, name) for name in vars(judges)["__all__"]})
    group = [THREAD, StringThread([("user", "Why?"), ("assistant", "5")])]
    with (
        testing.model("small-judge", answered),
        testing.endpoint("my-reward", [{"reward": 0.5}]),
        testing.grader("polite", [0.5]),
        testing.grader("brief", [0.5]),
    ):
        for judge in made if isinstance(made, list) else [made]:
            takes_group = isinstance(judge, judges.PairwiseJudge)
            score = asyncio.run(judge(group if takes_group else THREAD))
            for one in score if takes_group else [score]:
                assert isinstance(one, Score), one


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[Client]:
    with service.new_project() as client:
        yield client


@pytest.mark.service
def test_an_interval_is_of_a_batch(client: Client) -> None:
    (snippet,) = (snippet for snippet in JUDGES if snippet.startswith("batch."))
    client.graders.create.function(key="long", fn="async def grade(t): return len(t.completion())")
    batch = scored(client, "long", [{"completion": "x" * n} for n in (1, 2, 4, 8)])
    found = eval(snippet, {"batch": batch})
    assert (found.method, found.low < 3.75 < found.high) == ("bca", True)


@pytest.mark.service
def test_feedback_is_of_a_batch(client: Client) -> None:
    threads = [{"completion": "x", "metadata": {"gold": gold}} for gold in (0, 1)]
    with ModelServer(Script(yes_if="x")) as server:
        client.models.create("small-judge", base_url=server.base_url, model="m")
        client.graders.create.function(key="polite", fn="async def grade(t): return 0.0")
        batch = client.batches.create("polite", threads)
        given, of_judge, found = (eval(snippet, {"batch": batch, "client": client}) for snippet in FEEDBACK)
        assert (given.wait(progress=False).scored, of_judge.wait(progress=False).scored) == (2, 1)
        assert (len(found.feedback), found.proposal) == (1, "'x' is in it.")


def test_evaluators_and_checks() -> None:
    names = {name: getattr(checks, name) for name in checks.__all__} | {
        "Score": gradebox.Score,
        "thread": THREAD,
        "outcomes": [Outcome(index, "g@1", 1.0, 1.0, id="a") for index in range(3)],
        "messages": [{"role": "user", "content": "{question} {target} {prediction}"}],
        "eval_fn": str.__eq__,
        "p": "equality",
        **{name: getattr(evaluators, name) for name in ("deterministic", "exact_match", "lm_judge")},
        "reduced": reduced,
        "trials": trials,
    }
    snippets = [snippet for name in ("afnio", "Puck") for snippet in SECTIONS[name] if snippet not in FEEDBACK]
    with testing.model("small-judge", replies=[]):
        values = [eval(snippet, names) for snippet in snippets]
    assert [value for value in values if isinstance(value, float)] == [1.0, 1.0, 1.0, 0.0]
    trial = values[-1]
    assert (trial.pass_at_k, trial.pass_hat_k) == (1.0, 1.0)
    assert values[-2]["passed"]
