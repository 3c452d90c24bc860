"""The corpus of bad graders. Each is proved as an upload is, and scored as a batch is."""

import time

import pytest

from api.sources import SourceRefused, from_bytes
from gradebox.schemas import Report
from sandbox.grader_source import GraderSource
from sandbox.pool import Pool
from tests.backends import NAMES
from tests.hostile.cases import CASES, Case

pytestmark = pytest.mark.sandbox
_CONCERNED = [
    pytest.param(name, case, id=f"{name}-{case.name}") for name in NAMES for case in CASES if case.concerns(name)
]


@pytest.mark.parametrize(("attacked", "case"), _CONCERNED, indirect=["attacked"], scope="session")
def test_of_a_bad_grader_comes_what_must(case: Case, attacked: Pool, canaries: dict[str, str]) -> None:
    started = time.monotonic()
    report, text = _upload(case, attacked, case.source(canaries))
    assert case.faults_of_report(report) == [], case.must
    if report.valid and case.threads:
        started = time.monotonic()
        with attacked.grading(GraderSource(text, case.isolation, timeout_s=1.0)) as grading:
            outcomes = grading.score(b"\n".join(case.threads), 0, "hostile@1")
        assert case.faults_of_outcomes(outcomes) == [], case.must
    assert time.monotonic() - started < case.max_seconds, case.must


def _upload(case: Case, pool: Pool, source: bytes) -> tuple[Report, str]:
    try:
        text = from_bytes(source)
    except SourceRefused as refused:
        return refused.report, ""
    return pool.prove(GraderSource(text, case.isolation, timeout_s=5.0)), text


def test_the_corpus_is_whole() -> None:
    assert len(CASES) == len({case.name for case in CASES}) == 147
