"""Proves a grader with five checks. The last one grades threads, twice."""

from collections.abc import Sequence
from time import monotonic
from typing import Protocol

from gradebox.frame import Outcomes
from gradebox.outcome import Outcome
from gradebox.schemas import CHECKS, Check, Report
from sandbox.errors import InfrastructureError, Stopped
from sandbox.grading.channel import Stopping
from sandbox.grading.grading import Grading
from sandbox.grading.grading_call import Stop
from sandbox.guest.protocol.frames import CheckResult
from validators import test_run
from validators.candidate import CheckFailed

_LABEL = "test-run"
TEST_RUN_S = 60.0  # for all threads of a test run together, unless one may take longer
_TIMEOUTS = 1.1  # a completion that takes all of its time ends within so many times that


class Scorer(Protocol):
    """Scores the threads of a test run."""

    traces: dict[int, str]

    def score(
        self, payload: bytes, first_index: int, label: str, lines: int | None = None, *, stop: Stop | None = None
    ) -> list[Outcome]:
        """See `Grading.score`."""


class Answering(Protocol):
    """Answers the asks of a grader while it is proved."""

    def missing(self, asks: Sequence[str]) -> str | None:
        """Describes which of these asks the project lacks; None if it has all."""

    def scorer(self, grading: Grading, asks: Sequence[str]) -> Scorer:
        """Returns a scorer that uses a held sandbox and answers its asks."""


def prove(
    grading: Grading,
    threads: Sequence[bytes] | None,
    stopping: Stopping | None = None,
    answering: Answering | None = None,
) -> Report:
    """Returns the report on the grader that `grading` has loaded, or could not load. Without `answering`, nothing that
    it asks is available.

    Raises:
        InfrastructureError: no sandbox is available, or this machine was too busy for a result.
        Stopped: `stopping` returned True.
    """
    loaded = grading.load(stopping)
    checks = [_check(result) for result in loaded.checks]
    if loaded.isolation is None:
        return Report(valid=False, checks=checks)
    asks = list(loaded.asks)
    if asks and (missing := _missing(asks, answering)):
        failed = checks[-1].model_copy(update={"passed": False, "message": missing})
        return Report(valid=False, checks=[*checks[:-1], failed], asks=asks)
    scorer = answering.scorer(grading, asks) if asks and answering else grading
    lines = list(threads) if threads else [test_run.DEFAULT_GROUP if loaded.groups else test_run.DEFAULT_THREAD]
    source = grading.session.source
    text = source.text if source and not threads else ""
    most_s = max(TEST_RUN_S, _TIMEOUTS * source.timeout_s if source else 0.0)
    check, outcomes, warnings = _test_run(scorer, lines, text, most_s, stopping)
    return Report(
        valid=check.passed,
        checks=[*checks, check],
        warnings=[*loaded.warnings, *warnings],
        isolation=loaded.isolation,
        asks=asks,
        groups=loaded.groups,
        outcomes=Outcomes(outcomes),
    )


def _test_run(
    scorer: Scorer, lines: list[bytes], text: str, most_s: float, stopping: Stopping | None
) -> tuple[Check, list[Outcome], list[str]]:
    """The result of the check, the outcomes of its first run, and its warnings. `text` is the source, if the lines are
    not the caller's.
    """
    started = monotonic()
    outcomes: list[Outcome] = []
    warnings: list[str] = []
    trace, line = "", 0
    try:
        outcomes, traces = _grade(scorer, lines, started + most_s, stopping)
        if len(outcomes) < len(lines):
            raise CheckFailed(
                f"the test run took longer than {most_s:g} s, in which {len(outcomes)} of {len(lines)} threads "
                "were graded: send fewer, or shorter ones"
            )
        runs = _runs(outcomes, traces)
        message, passed = test_run.check(runs, text), True
        again, _ = _grade(scorer, lines, started + most_s, stopping)
        warnings = test_run.warnings(runs, _runs(again, {}))
    except CheckFailed as failed:
        message, passed, trace, line = failed.message, False, failed.trace, failed.line
    check = Check(
        name="test_run",
        passed=passed,
        message=message,
        line=line or None,
        traceback=trace or None,
        duration_ms=round((monotonic() - started) * 1000, 3),
    )
    return check, outcomes, warnings


def _missing(asks: list[str], answering: Answering | None) -> str | None:
    if answering is not None:
        return answering.missing(asks)
    return f"the grader asks {', '.join(asks)}, which cannot be answered here: check it in a project that has it"


def _grade(
    scorer: Scorer, lines: list[bytes], deadline: float, stopping: Stopping | None
) -> tuple[list[Outcome], dict[int, str]]:
    """The outcomes of the first lines, as many as are graded before the deadline, and their traces."""

    def stop(_: int) -> bool:
        return monotonic() > deadline or (stopping is not None and stopping())

    outcomes = scorer.score(b"\n".join(lines), 0, _LABEL, len(lines), stop=stop)
    if len(outcomes) < len(lines) and stopping is not None and stopping():
        raise Stopped("the caller no longer waits")
    return outcomes, scorer.traces


def _runs(outcomes: list[Outcome], traces: dict[int, str]) -> list[test_run.Run]:
    """Raises InfrastructureError if an outcome is of the service, as one that may be due to a busy machine."""
    for outcome in outcomes:
        if outcome.error is not None and outcome.error.retryable and outcome.error.kind != "model":
            raise InfrastructureError(f"thread {outcome.index} of a test run: {outcome.error.message}")
    return [
        test_run.Run(
            outcome.score,
            outcome.error.kind if outcome.error else "",
            outcome.error.message if outcome.error else "",
            traces.get(outcome.index, ""),
            outcome.not_applicable,
            tuple(outcome.scores or ()),
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
