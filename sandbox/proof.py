"""Proves a grader: the five checks, the last of them by grading threads twice."""

from collections.abc import Sequence
from time import monotonic

import msgspec

from gradebox.outcome import Outcome
from gradebox.schemas import CHECKS, Check, Report
from sandbox.grading import Grading
from sandbox.guest.frames import CheckResult
from validators import test_run
from validators.candidate import CheckFailed

_LABEL = "test-run"
_TEST_RUN_S = 60.0  # for all threads of a test run together
_SLICE = 16  # threads between two looks at the clock


def prove(grading: Grading, threads: Sequence[bytes] | None) -> Report:
    """The report on the grader that `grading` has loaded, or could not load.

    Raises:
        InfrastructureError: no sandbox could be had.
    """
    loaded = grading.session.loaded
    assert loaded is not None
    checks = [_check(result) for result in loaded.checks]
    if loaded.isolation is None:
        return Report(valid=False, checks=checks)
    started = monotonic()
    outcomes: list[Outcome] = []
    warnings, trace = list(loaded.warnings), ""
    lines = list(threads) if threads else [test_run.DEFAULT_THREAD]
    try:
        outcomes, traces = _grade(grading, lines, started + _TEST_RUN_S)
        runs = _runs(outcomes, traces)
        message, passed = test_run.check(runs), True
        again, _ = _grade(grading, lines, started + _TEST_RUN_S)
        warnings += test_run.warnings(runs, _runs(again, {}))
    except CheckFailed as failed:
        message, passed, trace = failed.message, False, failed.trace
    spent = (monotonic() - started) * 1000
    checks.append(
        Check(name="test_run", passed=passed, message=message, traceback=trace or None, duration_ms=round(spent, 3))
    )
    told = [msgspec.to_builtins(outcome) for outcome in outcomes]
    return Report(valid=passed, checks=checks, warnings=warnings, isolation=loaded.isolation, outcomes=told)


def _grade(grading: Grading, lines: list[bytes], deadline: float) -> tuple[list[Outcome], dict[int, str]]:
    outcomes: list[Outcome] = []
    traces: dict[int, str] = {}
    for first in range(0, len(lines), _SLICE):
        if monotonic() > deadline:
            raise CheckFailed(
                f"the test run took longer than {_TEST_RUN_S:g} s for {first} of {len(lines)} threads: send fewer"
            )
        outcomes += grading.score(b"\n".join(lines[first : first + _SLICE]), first, _LABEL)
        traces |= grading.traces
    return outcomes, traces


def _runs(outcomes: list[Outcome], traces: dict[int, str]) -> list[test_run.Run]:
    return [
        test_run.Run(
            outcome.score,
            outcome.error.kind if outcome.error else "",
            outcome.error.message if outcome.error else "",
            traces.get(outcome.index, ""),
        )
        for outcome in outcomes
    ]


def _check(result: CheckResult) -> Check:
    return Check(
        name=CHECKS[result.number],
        passed=result.passed,
        message=result.message,
        line=result.line or None,
        column=result.column or None,
        traceback=result.trace or None,
        duration_ms=result.micros / 1000,
    )
