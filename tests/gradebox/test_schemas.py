"""Tests of what objects of the service show of themselves in a notebook and by `print`."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gradebox.outcome import Outcome, OutcomeError
from gradebox.schemas import (
    Batch,
    BatchGrader,
    Check,
    Environment,
    EnvironmentUse,
    GraderRecord,
    ModelDefaults,
    Project,
    ProjectModel,
    Report,
    Schema,
    Version,
    setting_text,
)

NOW = datetime(2026, 11, 1, tzinfo=UTC)
CHECK = Check(name="signature", passed=True, message="takes one parameter", duration_ms=1)
TIMES: dict[str, Any] = {"created_at": NOW, "updated_at": NOW}
LIMITS: dict[str, Any] = {"sha256": "ab", "isolation": "batch", "timeout_s": 5.0, "memory_mb": 256}
GRADER = GraderRecord(
    project="p", key="exact", name="", description="an\nanswer", locked=False, version=3, **LIMITS, **TIMES
)
CUSTOM = GRADER.model_copy(update={"kind": "custom", "description": ""})
VERSION = Version(number=2, source="", isolation_asked="auto", created_at=NOW, **LIMITS)
FAILED = CHECK.model_copy(update={"passed": False, "line": 2, "message": "no", "traceback": "Traceback:\n  1 / 0\n"})


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (GRADER, "<GraderRecord exact@3 of project p, function, batch isolation: an answer>"),
        (CUSTOM, "<GraderRecord exact@3 of project p, custom>"),
        (VERSION, "<Version 2: function, batch isolation, 5 s, 256 MiB>"),
        (
            Batch(
                id="b1", project="p", state="finished", graders=[BatchGrader(key="exact", version=3)], threads=9,
                total=9, done=9, scored=7, errors={"timeout": 2}, created_at=NOW,
            ),
            "<Batch b1 of exact@3 finished: 9 of 9 outcomes, 2 of them errors>",
        ),
        (Project(key="p", description="of us", created_at=NOW), "<Project p: of us>"),
        (
            Environment(project="p", key="math", build=2, state="building", **TIMES),
            "<Environment math@2 of project p: building>",
        ),
        (
            ProjectModel(
                project="p", key="judge", base_url="http://m", model="gpt", has_api_key=True, defaults=ModelDefaults(),
                timeout_s=9, **TIMES,
            ),
            "<ProjectModel judge of project p: gpt at http://m>",
        ),
    ],
)  # fmt: skip
def test_one_line_has_what_people_look_for(shown: Schema, text: str) -> None:
    assert (repr(shown), str(shown)) == (text, text)
    assert shown == shown.model_copy()


def test_a_long_description_is_cut() -> None:
    assert len(repr(GRADER.model_copy(update={"description": "x" * 10_000}))) < 250


def test_a_report_is_printed_with_what_failed() -> None:
    report = Report(valid=False, checks=[CHECK, FAILED], warnings=["line 1: slow"])
    assert str(report) == "check 'signature' failed (line 2): no\nTraceback:\n  1 / 0\nwarning: line 1: slow"
    assert repr(report) == "<Report check 'signature' failed (line 2): no Traceback: 1 / 0 warning: line 1: slow>"
    placed = FAILED.model_copy(update={"message": "no (line 2)"})
    assert str(Report(valid=False, checks=[placed])).startswith("check 'signature' failed: no (line 2)\n")
    elsewhere = FAILED.model_copy(update={"message": "no (line 21)"})
    assert str(Report(valid=False, checks=[elsewhere])).startswith("check 'signature' failed (line 2): no (line 21)\n")
    assert str(Report(valid=True, checks=[CHECK])) == "the grader is valid"


def test_an_outcome_is_shown_with_what_it_has() -> None:
    assert repr(Outcome(0, "exact@3", 1.0, 0.2)) == "Outcome(index=0, grader='exact@3', score=1.0, run_ms=0.2)"
    error = OutcomeError("exception", "KeyError: 'a'")
    assert repr(error) == "OutcomeError(kind='exception', message=\"KeyError: 'a'\", retryable=False)"


def test_changed_settings_of_a_version() -> None:
    use = EnvironmentUse(key="math", build=2, sha256="ab")
    newer = VERSION.model_copy(update={"memory_mb": 512, "environment": use, "config": {"criterion": "a\nb", "n": 1}})
    changes = VERSION.changes(newer)
    assert list(changes) == ["memory_mb", "environment", "config.criterion", "config.n"]
    assert [tuple(map(setting_text, pair)) for pair in changes.values()] == [
        ("256", "512"), ("none", "math@2"), ("none", '"a\\nb"'), ("none", "1"),
    ]  # fmt: skip
    assert VERSION.changes(VERSION) == {}
