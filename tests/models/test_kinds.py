"""Tests of each kind of grader: its generated source is proved and scores in real sandboxes."""

import json
from typing import Any

import pytest

from gradebox.judges import kind_source
from gradebox.outcome import Outcome, details_of
from gradebox.schemas import Report
from models.asks.asker import Asker
from sandbox.grader_source import GraderSource
from sandbox.pool.pool import Pool
from storage.statistics.outcome_tally import tally
from tests.models.scoring.test_asking_scorer import Answering, Scripted, lines, scored, text

pytestmark = pytest.mark.sandbox

BINARY = kind_source.source_of(
    "binary_judge",
    {
        "criteria": "The answer is polite",
        "model": "small-judge",
        "examples": [{"input": [{"role": "user", "content": "Why?"}], "output": "Go away.", "passes": False}],
    },
)
EXTERNAL = kind_source.source_of("external", {"endpoint": "my-reward"})


def judged(request: dict[str, Any]) -> dict[str, Any]:
    answer = request["messages"][1]["content"].split("# Answer\n[begin ")[1].split("\n")[1]
    verdicts = {"rude": "FAIL", "unclear": "NA", "odd": "MAYBE"}
    return text(json.dumps({"reasoning": f"so it is: {answer}", "score": verdicts.get(answer, "PASS")}))


def rewarded(request: dict[str, Any]) -> dict[str, Any]:
    if request["thread"]["messages"][-1]["content"] == "away":
        return {"error": {"kind": "unreachable", "message": "it is away", "retryable": True, "reply": ""}}
    return {"reply": {"reward": 0.25, "metadata": {"reason": "a quarter", "rank": 3}}}


def proved(pool: Pool, grader: str, asker: Asker) -> Report:
    return pool.prove(GraderSource(grader, project="p"), answering=Answering(asker))


def test_a_binary_judge_is_proved_and_scores(pool: Pool) -> None:
    report = proved(pool, BINARY, Scripted(judged))
    assert report.valid, report.checks
    assert report.asks == ["model:small-judge"]
    assert report.isolation == "batch"
    kind, rude, unclear, odd = scored(pool, BINARY, Scripted(judged), lines("kind", "rude", "unclear", "odd"))
    assert [outcome.score for outcome in (kind, rude, unclear, odd)] == [1.0, 0.0, None, None]
    assert (rude.reason, details_of(rude)) == ("so it is: rude", {"verdict": "FAIL"})
    assert (unclear.error, unclear.not_applicable) == (None, "so it is: unclear")
    assert odd.error is not None and (odd.error.kind, odd.error.cause) == ("model", "invalid_reply")
    assert odd.error.reply is not None and "MAYBE" in odd.error.reply
    assert odd.spent is not None and odd.spent.asks == 3


def test_an_external_endpoint_is_proved_and_scores(pool: Pool) -> None:
    report = proved(pool, EXTERNAL, Scripted(rewarded))
    assert report.valid, report.checks
    assert report.asks == ["endpoint:my-reward"]
    there, away = scored(pool, EXTERNAL, Scripted(rewarded), lines("there", "away"))
    assert (there.score, there.reason, details_of(there)) == (0.25, "a quarter", {"reason": "a quarter", "rank": 3})
    assert away.error is not None
    assert (away.score, away.error.kind, away.error.cause, away.error.retryable) == (None, "model", "unreachable", True)


def replied(request: dict[str, Any]) -> dict[str, Any]:
    """Replies like a model that prefers the first option, and finds two claims of which one is supported."""
    asked, members = request["messages"][-1]["content"], request.get("schema", {}).get("properties", {})
    if "option" in members:
        return text(json.dumps({"reasoning": "first", "option": members["option"]["enum"][0]}))
    if "claims" in members:
        return text('{"claims": ["one", "two"]}')
    if "statements" in members:
        return text('{"statements": [{"text": "s", "reason": "r", "relevant": true}]}')
    if "1" in members:
        found = {str(n): {"reason": "r", "supported": n == 1} for n in range(1, len(members) + 1)}
        return text(json.dumps(found))
    return text(json.dumps({"reason": "r", "relevant": "on topic" in asked}))


def outcome_of(pool: Pool, kind: str, config: dict[str, Any]) -> Outcome:
    grader = kind_source.source_of(kind, {"model": "small-judge", **config})
    report = proved(pool, grader, Scripted(replied))
    assert report.valid is (config.get("on_bias") != "error"), report.checks
    line = json.dumps({"prompt": "Why?", "completion": "So.", "metadata": {"documents": ["on topic", "else"]}})
    (outcome,) = scored(pool, grader, Scripted(replied), line.encode())
    return outcome


@pytest.mark.parametrize(
    ("kind", "config", "score", "asks"),
    [
        ("judge", {"criterion": "conciseness", "self_consistency": 3, "check_positional_bias": True}, 1.0, 6),
        ("judge", {"criterion": "Is it short?", "check_positional_bias": True, "on_bias": "tie"}, 0.5, 2),
        ("judge", {"criterion": "Is it short?", "check_positional_bias": True, "on_bias": "error"}, None, 2),
        ("multi_criteria", {"criteria": [{"criterion": "Is it short?", "target_option": "No"}]}, 0.0, 1),
    ],
)
def test_settings_of_a_judge_hold_in_a_sandbox(
    pool: Pool, kind: str, config: dict[str, Any], score: float | None, asks: int
) -> None:
    outcome = outcome_of(pool, kind, config)
    assert outcome.score == score
    assert outcome.spent is not None and outcome.spent.asks == asks
    if score is None:
        assert outcome.error is not None and (outcome.error.kind, outcome.error.cause) == ("model", "failed")
        assert (details_of(outcome) or {})["positional_bias"] == {"detected": True, "option": "No"}
    else:
        assert outcome.details


def test_contests_that_the_order_decides_are_counted_though_they_give_no_score(pool: Pool) -> None:
    config = {"criterion": "Is it short?", "check_positional_bias": True, "on_bias": "error"}
    grader = kind_source.source_of("pairwise_judge", {"model": "small-judge", **config})
    line = json.dumps({"prompt": "Why?", "completions": ["So.", "Thus.", "Hence."]})
    (outcome,) = scored(pool, grader, Scripted(replied), line.encode())
    assert outcome.scores == [None] * 3
    counted = tally([outcome])
    assert (counted.bias_checked, counted.bias_detected) == (3, 3)
