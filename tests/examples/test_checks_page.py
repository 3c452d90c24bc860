"""Tests of the examples in docs/checks.md."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gradebox import Client, StringThread, checks
from gradebox.checks import Trajectory
from gradebox.outcome import Outcome, details_of
from sandbox.grader_source import GraderSource
from sandbox.pool.pool import Pool
from tests.gradebox.conftest import Service
from tests.models.scoring.test_asking_scorer import Scripted, proved_and_scored, text

PAGE = (Path(__file__).parents[2] / "docs" / "checks.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CONTAINS, SEVERAL, KIND, TRIALS, CLOSENESS, JUDGE, REDUCED = BLOCKS
AGENT, RECORDED = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
CONFIG = json.loads(re.findall(r"-d '(.*)'\n", PAGE)[0])
DOC_ROWS = re.findall(r"^\| (`.*?) \|", PAGE[: PAGE.index("## Repeated")], re.MULTILINE)


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[Client]:
    """A client of a project with the grader that the page sends by curl."""
    with service.new_project() as client:
        client.graders.create.checks(CONFIG["key"], CONFIG["config"]["checks"])
        yield client


def graded(pool: Pool, source: str, *threads: dict[str, Any]) -> list[Outcome]:
    payload = "\n".join(map(json.dumps, threads)).encode()
    with pool.grading(GraderSource(source, project="p")) as grading:
        return grading.score(payload, 0, "g@1")


@pytest.mark.sandbox
def test_a_check_in_a_function(pool: Pool) -> None:
    passed, failed = graded(pool, CONTAINS, {"completion": "It is 4."}, {"completion": "five"})
    assert (passed.score, failed.score) == (1.0, 0.0)
    assert str(failed.reason) in PAGE


@pytest.mark.sandbox
def test_several_checks(pool: Pool) -> None:
    passed, failed = graded(pool, SEVERAL, AGENT, {"completion": "Sorry"})
    assert (passed.score, failed.score) == (1.0, 0.0)
    details = details_of(failed)
    assert details is not None and [one["passed"] for one in details["checks"]] == [False, True, False]
    assert all(f"`{name}`" in PAGE for name in details["summary"])


@pytest.mark.service
def test_checks_as_a_kind(client: Client) -> None:
    exec(KIND, {"client": client})
    passed, failed = client.score("quotes-a-price", [AGENT, {"completion": '{"price": "90"}'}])
    assert (passed.score, failed.score) == (1.0, 0.0)
    assert (details_of(failed) or {})["summary"]["failed_count"] == 2


def test_trajectories_of_both_forms() -> None:
    turns, told = (Trajectory.of(StringThread.from_object(one)) for one in (AGENT, RECORDED))
    assert (turns.total_tokens, turns.total_duration_ms, len(turns.steps or [])) == (37, 460, 2)
    assert [(output.type, output.is_call) for output in turns.outputs] == [("search", True), ("text", False)]
    assert (told.total_tokens, told.total_duration_ms) == (37, 480)
    assert [output.type for output in told.outputs] == ["Search", "text"]


def test_each_check_is_in_the_tables() -> None:
    named = set(re.findall(r"`(\w+)", " ".join(DOC_ROWS)))
    made = {name for name in checks.__all__ if name[0].islower()} - {"run_all"}
    assert made <= named


@pytest.mark.service
def test_repeated_completions(client: Client) -> None:
    names: dict[str, Any] = {"client": client}
    exec(TRIALS, names)
    found = names["found"]
    assert (found.pass_at_k, found.pass_hat_k, found.pass_rate) == (1.0, 0.5, 0.75)
    shown = re.findall(r"\| `pass_\w+` \|.*\| ([\d.]+) \|", PAGE)
    assert list(map(float, shown)) == [found.pass_at_k, found.pass_hat_k, found.pass_rate]


@pytest.mark.sandbox
def test_an_evaluator(pool: Pool) -> None:
    threads = ({"completion": "3", "metadata": metadata} for metadata in ({"answer": 4}, {}))
    near, lacks = graded(pool, CLOSENESS, *threads)
    assert near.score == 0.75
    assert "numeric closeness" in str(near.reason)
    assert lacks.error is not None


@pytest.mark.sandbox
def test_a_judge(pool: Pool) -> None:
    line = b'{"completion": "5", "metadata": {"answer": "4", "question": "2+2?"}}'
    asker = Scripted(lambda _: text('{"explanation": "5 is not 4", "score": false}'))
    outcome = proved_and_scored(pool, JUDGE, asker, line)
    assert (outcome.score, outcome.reason, details_of(outcome)) == (0.0, "5 is not 4", {"score": False})
    prompt = asker.requests[-1]["messages"][-1]["content"]
    assert prompt.startswith("Question: 2+2?\nExpected: 4\nGot: 5\n")


@pytest.mark.service
def test_a_reduction(client: Client) -> None:
    names: dict[str, Any] = {"client": client}
    exec(REDUCED, names)
    assert (names["found"].score, names["found"].is_success) == (1.0, False)
