"""Tests of the metrics of a process. tests/worker/test_main.py reads those of a worker over HTTP."""

import pytest

from runtime import metrics
from runtime.metrics import Metrics


def test_outcomes_are_counted_by_grader_and_kind_of_error() -> None:
    counted = Metrics("worker")
    counted.completions.add("p", "exact", 3, 4, {"timeout": 1}, 1500.0)
    counted.completions.add("p", "exact", 2, 0, {}, 500.0)

    def outcomes(outcome: str) -> float | None:
        labels = {"project": "p", "grader": "exact", "outcome": outcome}
        return counted.registry.get_sample_value("gradebox_completions_total", labels)

    assert (outcomes("scored"), outcomes("not_applicable"), outcomes("timeout"), outcomes("crash")) == (5, 4, 1, None)
    labels = {"project": "p", "grader": "exact"}
    assert counted.registry.get_sample_value("gradebox_completion_run_seconds_total", labels) == 2.0


def test_graders_beyond_a_number_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_MOST", 3)
    counted = Metrics("worker")
    for number in (0, 1, 2, 3, 4, 1):
        counted.completions.add("p", f"g{number}", 1, 0, {}, 1.0)

    def scored(project: str, grader: str) -> float | None:
        labels = {"project": project, "grader": grader, "outcome": "scored"}
        return counted.registry.get_sample_value("gradebox_completions_total", labels)

    assert [scored("p", f"g{number}") for number in range(5)] == [1, 2, 1, None, None]
    assert scored("(rest)", "(rest)") == 2
