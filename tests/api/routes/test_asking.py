"""Tests of graders that ask models of the project and other graders, over HTTP."""

from collections.abc import Iterator
from time import monotonic

import httpx
import pytest

from examples.model_server import ModelServer, Script
from tests.api.conftest import PROJECT, answer_of, create, problem

pytestmark = pytest.mark.usefixtures("here")
JUDGE = """
from gradebox import Model, Score

judge = Model("small-judge")


async def grade(thread: StringThread) -> float:
    verdict = await judge.choose(f"Is this polite? {thread.completion()}", ["yes", "no"])
    return Score(verdict.option == "yes", details={"option": verdict.option})
"""
REPLY = '{"reasoning": "so it seems", "option": "yes"}'
BOTH = """
from gradebox import Grader

exact = Grader("exact")


async def grade(thread: StringThread) -> float:
    return 0.5 * await exact(thread)
"""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(Script(reply=REPLY)) as server:
        yield server


def register(client: httpx.Client, server: ModelServer, key: str = "small-judge") -> None:
    answer_of(client.post(f"{PROJECT}/models", json={"key": key, "base_url": server.base_url, "model": "m"}), 201)


def score(client: httpx.Client, key: str, *completions: str) -> list[dict[str, object]]:
    threads = [{"completion": each, "prompt": "2 + 2?"} for each in completions]
    answer = answer_of(client.post(f"{PROJECT}/graders/{key}/score", json={"threads": threads}))
    outcomes: list[dict[str, object]] = answer["outcomes"]
    return outcomes


def test_a_judge_scores_with_a_model_of_its_project(client: httpx.Client, server: ModelServer) -> None:
    register(client, server)
    create(client, "polite", JUDGE)
    version = client.get(f"{PROJECT}/graders/polite/versions/1").json()
    assert (version["asks"], version["proved_with_stand_ins"]) == (["model:small-judge"], False)
    proof = len(server.bodies)
    assert proof == 1  # the second test run uses the kept reply
    outcomes = score(client, "polite", "good day", "hello")
    assert [outcome["details"] for outcome in outcomes] == [{"option": "yes"}] * 2
    assert [outcome["score"] for outcome in outcomes] == [1.0, 1.0]
    assert len(server.bodies) == proof + 2
    again = score(client, "polite", "good day")
    assert again[0]["spent"] == {"asks": 1, "kept": 1, "input_tokens": 0, "output_tokens": 0, "usd": 0.0}
    assert len(server.bodies) == proof + 2


def test_what_a_project_lacks_fails_the_proof_with_what_it_has(client: httpx.Client, server: ModelServer) -> None:
    register(client, server, "large-judge")
    report = client.post(f"{PROJECT}/validate", json={"source": JUDGE}).json()
    assert report["valid"] is False
    failed = report["checks"][-1]
    assert failed["name"] == "execution"
    assert "no model 'small-judge'" in failed["message"]
    assert "large-judge" in failed["message"]
    assert problem(client.post(f"{PROJECT}/graders", json={"key": "p", "source": JUDGE}), 422, "validation-failed")
    itself = client.post(f"{PROJECT}/graders", json={"key": "exact", "source": BOTH})
    assert "there is no grader 'exact'" in itself.json()["report"]["checks"][-1]["message"]
    assert server.bodies == []


def test_stand_ins_prove_a_judge_whose_model_is_not_at_hand(client: httpx.Client, server: ModelServer) -> None:
    body = {"key": "polite", "source": JUDGE, "ask": "stand-in"}
    assert client.post(f"{PROJECT}/graders", json=body).status_code == 201
    assert client.get(f"{PROJECT}/graders/polite/versions/1").json()["proved_with_stand_ins"] is True
    (outcome,) = score(client, "polite", "good day")
    error = outcome["error"]
    assert isinstance(error, dict)
    assert (error["kind"], error["cause"], error["retryable"]) == ("model", "unknown", False)
    register(client, server)
    assert client.put(f"{PROJECT}/graders/polite", json={"source": JUDGE, "ask": "real"}).json()["version"] == 2
    assert client.put(f"{PROJECT}/graders/polite", json={"source": JUDGE, "ask": "stand-in"}).json()["version"] == 2


def test_a_proof_whose_server_is_away_is_refused_soon_and_says_what_to_do(client: httpx.Client) -> None:
    with ModelServer() as gone:
        register(client, gone)
    began = monotonic()
    detail = problem(
        client.post(f"{PROJECT}/graders", json={"key": "polite", "source": JUDGE}), 422, "validation-failed"
    )
    assert monotonic() - began < 10
    assert "the server could not be reached" in detail
    assert '`ask="stand-in"`' in detail
    body = {"key": "polite", "source": JUDGE, "ask": "stand-in"}
    assert client.post(f"{PROJECT}/graders", json=body).status_code == 201
    both = BOTH.replace("exact", "polite")
    refused = problem(client.post(f"{PROJECT}/graders", json={"key": "both", "source": both}), 422, "validation-failed")
    assert "the server could not be reached" in refused
    assert monotonic() - began < 20
    body = {"key": "both", "source": both, "ask": "stand-in"}  # stand-ins also answer the asks of an asked grader
    assert client.post(f"{PROJECT}/graders", json=body).status_code == 201


def test_a_grader_asks_the_version_of_another_that_was_newest_when_it_was_made(client: httpx.Client) -> None:
    create(client)
    create(client, "half", BOTH)
    assert client.get(f"{PROJECT}/graders/half/versions/1").json()["pinned"] == {"grader:exact": "exact@1"}
    assert [outcome["score"] for outcome in score(client, "half", "4", "5")] == [0.5, 0.0]
    other = "async def grade(thread):\n    return 0.25\n"
    assert client.put(f"{PROJECT}/graders/exact", json={"source": other}).json()["version"] == 2
    assert [outcome["score"] for outcome in score(client, "half", "4", "5")] == [0.5, 0.0]
    assert client.put(f"{PROJECT}/graders/half", json={"source": BOTH}).json()["version"] == 2
    assert [outcome["score"] for outcome in score(client, "half", "5")] == [0.125]
    client.delete(f"{PROJECT}/graders/exact")
    (outcome,) = score(client, "half", "5")
    error = outcome["error"]
    assert isinstance(error, dict)
    assert (error["kind"], error["cause"]) == ("model", "unknown")


def test_a_grader_asks_a_judge(client: httpx.Client, server: ModelServer) -> None:
    register(client, server)
    create(client, "exact", JUDGE)
    create(client, "half", BOTH)
    (outcome,) = score(client, "half", "good day")
    assert outcome["score"] == 0.5
    assert outcome["spent"] == {"asks": 2, "kept": 0, "input_tokens": 10, "output_tokens": 5, "usd": 0.0}
