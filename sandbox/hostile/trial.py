"""Tries one hostile grader: proves it like an upload, and scores it like a batch."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol

from sandbox.errors import InfrastructureError
from sandbox.grader_source import GraderSource
from sandbox.grading.five_checks import Answering, Scorer
from sandbox.grading.grading import Grading
from sandbox.grading.source_bytes import SourceRefused, from_bytes
from sandbox.hostile.cases import Case, LateFault
from sandbox.pool.pool import Pool

_LABEL = "hostile@1"
_PAUSES_S = (0.0, 2.0, 4.0, 8.0)  # before each retry of a case that only took too long
_HONEST = GraderSource("async def grade(thread):\n    return float(thread.completion())\n")


class AnsweringBatches(Answering, Protocol):
    """Answers graders that ask, both while they are proved and in batches."""

    def batch_scorer(self, lend: Callable[[], AbstractContextManager[Grading]], asks: Sequence[str]) -> Scorer:
        """Returns a scorer that works like a batch: it borrows a sandbox for each step."""


def is_late(faults: list[str]) -> bool:
    """Whether there are faults, and an overloaded machine may be the cause of all."""
    return bool(faults) and all(isinstance(fault, LateFault) for fault in faults)


def attempt_again(attempted: Callable[[Case], list[str]], case: Case) -> list[str]:
    """Retries a case that was late, with pauses in case other programs use the processors. Returns the last faults."""
    for pause_s in _PAUSES_S:
        time.sleep(pause_s)
        faults = attempted(case)
        if not is_late(faults):
            break
    return faults


def attempt(
    case: Case, pool: Pool, canaries: dict[str, str], environment: str = "", answering: AnsweringBatches | None = None
) -> list[str]:
    """Tries a case. Returns the faults in words, empty if there are none.

    Args:
        case: the case to try.
        pool: where the sandboxes come from.
        canaries: the values that replace the placeholders in the source.
        environment: the SHA-256 of the environment to use.
        answering: answers graders that ask; without it, nothing that a grader asks is available.
    """
    try:
        return _attempt(case, pool, canaries, environment, answering)
    except InfrastructureError as error:
        fault = LateFault if "since the machine was busy" in str(error) else str
        return [fault(f"no sandbox was to be had any more: {error}")]


def _attempt(
    case: Case, pool: Pool, canaries: dict[str, str], environment: str, answering: AnsweringBatches | None
) -> list[str]:
    started = time.monotonic()
    try:
        text = from_bytes(case.source(canaries))
    except SourceRefused as refused:
        return case.faults_of_report(refused.report) + _late(case, "the checks", started)
    source = GraderSource(text, case.isolation, timeout_s=case.timeout_s, environment=environment)
    report = pool.prove(source, answering=answering)
    faults = case.faults_of_report(report)
    if faults or not report.valid or not case.threads:
        return faults + _late(case, "the checks", started)
    started = time.monotonic()
    if report.asks and answering is not None:
        scorer = answering.batch_scorer(partial(pool.grading, source), report.asks)
        faults = case.faults_of_outcomes(scorer.score(b"\n".join(case.threads), 0, _LABEL))
    else:
        faults = _score(case, source, pool)
    return faults + _late(case, "the batch", started) + _still_serves(pool)


def _score(case: Case, source: GraderSource, pool: Pool) -> list[str]:
    with pool.grading(source) as grading:
        first = grading.session.sandbox
        outcomes = grading.score(b"\n".join(case.threads), 0, _LABEL)
    faults = case.faults_of_outcomes(outcomes)
    if case.next is None:
        return faults
    with pool.grading(source) as grading:
        if grading.session.sandbox is not first:
            faults.append("the sandbox was not used again, so this showed nothing")
        return faults + case.next.faults_of_outcomes(grading.score(b"\n".join(case.next.threads), 0, _LABEL))


def _late(case: Case, what: str, started: float) -> list[str]:
    spent = time.monotonic() - started
    late = LateFault(f"{what} took {spent:.1f} s, more than {case.max_seconds:g} s")
    return [late] if spent > case.max_seconds else []


def _still_serves(pool: Pool) -> list[str]:
    with pool.grading(_HONEST) as grading:
        (outcome,) = grading.score(b'{"completion": "0.5"}', 0, "honest@1")
    return [] if outcome.score == 0.5 else [f"an honest grader was scored wrong afterwards: {outcome}"]
