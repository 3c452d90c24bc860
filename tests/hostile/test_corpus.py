"""Tests that each hostile grader has its required result, and that an honest grader can be scored afterwards."""

import json
from collections import Counter
from functools import partial

import pytest

from gradebox.frame import Outcomes
from gradebox.outcome import ErrorKind, Outcome, OutcomeError, Spent
from gradebox.schemas import Check, CheckName, Report
from models.selftest import EchoAnswering
from sandbox.hostile.cases import Case
from sandbox.hostile.corpus import corpus
from sandbox.hostile.surroundings import Surroundings
from sandbox.hostile.trial import attempt, attempt_again, is_late
from sandbox.pool.pool import Pool
from tests.backends import NAMES, OF_ISOLATION

_CASES = corpus()
_ANSWERING = EchoAnswering()


def _concerns(case: Case, backend: str) -> bool:
    if not case.concerns(backend):
        return False
    # A container has other scratch folders and devices, and a batch may leave something there in either isolation.
    return backend == "bubblewrap" or case.category in OF_ISOLATION or case.name.startswith("reuse, batch")


_CONCERNED = [
    pytest.param(name, case, id=f"{name}-{case.name}") for name in NAMES for case in _CASES if _concerns(case, name)
]


@pytest.mark.sandbox
@pytest.mark.parametrize(("attacked", "case"), _CONCERNED, indirect=["attacked"], scope="module")
def test_of_a_bad_grader_comes_what_must(case: Case, attacked: Pool, around: Surroundings) -> None:
    attempted = partial(attempt, pool=attacked, canaries=around.canaries, answering=_ANSWERING)
    faults = attempted(case)
    if is_late(faults):  # other tests may have delayed it; a real fault repeats
        faults = attempt_again(attempted, case)
    assert faults == [], case.must


def test_the_corpus_is_whole() -> None:
    assert len(_CASES) == len({case.name for case in _CASES})
    assert Counter(case.row["expect"]["valid"] for case in _CASES)[False] > 10
    assert len(_CASES) > 350


def _case(**expect: object) -> Case:
    row = {"name": "x", "category": "x", "must": "x", "isolation": "completion", "source": "", "threads": [{}]}
    return Case(row | {"expect": {"valid": True} | expect})


@pytest.mark.parametrize(
    ("expect", "outcome", "fault"),
    [
        ({"outcomes": [["scored"]]}, Outcome(0, "g", None, 0.0, error=OutcomeError("crash", "gone")), "came to crash"),
        ({"scores": {"0": [0.25]}}, Outcome(0, "g", 666.0, 0.0), "was scored 666.0"),
        ({"never_scores": [666.0]}, Outcome(0, "g", 666.0, 0.0, reason="it took 9 s"), "it took 9 s"),
        ({}, Outcome(0, "g", 1.0, 0.0, stdout="x" * 70_000), "70000 bytes of its printed text"),
        ({}, Outcome(0, "g", None, 0.0, error=OutcomeError("exception", "x" * 20_000)), "20000 bytes of its message"),
        ({}, Outcome(0, "g", 1.0, 0.0, spent=Spent(65)), "answered 65 asks"),
        (
            {"outcomes": [["model: too_much"]]},
            Outcome(0, "g", None, 0.0, error=OutcomeError("model", "?", cause="unknown")),
            "came to model: unknown",
        ),
    ],
)
def test_a_breach_is_told(expect: dict[str, object], outcome: Outcome, fault: str) -> None:
    (told,) = _case(**expect).faults_of_outcomes([outcome])
    assert fault in told and not is_late([told])


@pytest.mark.parametrize(
    ("name", "message", "kind", "late"),
    [
        ("syntax", "the source takes longer than 1 s to compile: take it apart.", None, True),
        ("execution", "Ha: it takes longer than 1 s", None, False),
        ("test_run", "`grade` gave no score (timeout): `grade` took longer than 1 s", "timeout", True),
        ("test_run", "`grade` gave no score (exception): Ha: it took longer than 1 s", "exception", False),
    ],
)
def test_what_a_busy_machine_may_cause_is_late(
    name: CheckName, message: str, kind: ErrorKind | None, late: bool
) -> None:
    outcomes = [Outcome(0, "g", None, 0.0, error=OutcomeError(kind, message))] if kind else []
    checks = [Check(name=name, passed=False, message=message, duration_ms=0.0)]
    assert is_late(_case().faults_of_report(Report(valid=False, checks=checks, outcomes=Outcomes(outcomes)))) == late


def test_an_outcome_too_few_is_told() -> None:
    assert _case().faults_of_outcomes([]) == ["0 outcomes for 1"]


def test_a_grader_that_should_have_been_refused_is_told() -> None:
    report = Report(valid=True, checks=[Check(name="syntax", passed=True, message="", duration_ms=0.0)])
    assert "accepted" in _case(valid=False).faults_of_report(report)[0]


def test_names_of_this_machine_are_put_in() -> None:
    row = {"source": "open('CANARY_FILE'), 6379"}
    assert Case(row).source({"CANARY_FILE": "/x", "6379": "1"}) == b"open('/x'), 1"
    (thread,) = Case({"threads_gen": [{"content_repeat": ["a", 3]}]}).threads
    assert json.loads(thread)["messages"][1]["content"] == "aaa"
