"""`gradebox validate`"""

from typing import TYPE_CHECKING, Annotated

import typer

from gradebox.cli.command import Invocation
from gradebox.cli.files import (
    ColumnChoice,
    ContractChoice,
    FunctionChoice,
    GraderFile,
    ThreadsFile,
    read_threads,
    source_or_exit,
)
from gradebox.cli.grader_options import AskChoice, EnvironmentKey
from gradebox.cli.output import as_json, cell, say

if TYPE_CHECKING:
    from gradebox.outcome import Outcome
    from gradebox.schemas import Report

_SHOWN = 20  # how many outcomes of the test run are printed


def validate(
    invocation: Invocation,
    file: GraderFile,
    threads: ThreadsFile = None,
    column: ColumnChoice = None,
    contract: ContractChoice = "gradebox",
    function: FunctionChoice = None,
    grader: Annotated[
        str | None, typer.Option("--grader", metavar="KEY", help="Try it on the test threads of this grader.")
    ] = None,
    environment: EnvironmentKey = None,
    ask: AskChoice = None,
) -> None:
    """Runs the five checks on a grader; saves nothing. Exits 0 when valid, 1 when not or when refused, else 2."""
    source = source_or_exit(file, contract, function)
    tried_on = read_threads(threads, column)
    report = invocation.client.graders.validate(source, tried_on, grader=grader, environment=environment, ask=ask)
    as_json(report) if invocation.json else show(report)
    raise typer.Exit(0 if report.valid else 1)


def show(report: "Report", stderr: bool = False) -> None:
    """Prints a line for each check, then the outcomes of the test run and the warnings."""
    from gradebox.schemas import CHECKS

    results = {check.name: check for check in report.checks}
    for name in CHECKS:
        check = results.get(name)
        if check is None:
            say(f"-  {name:<10} not reached", stderr)
            continue
        where = f"line {check.unnamed_line}: " if check.unnamed_line else ""
        say(f"{'✓' if check.passed else '✗'}  {name:<10} {where}{check.message}", stderr)
    if report.failed and report.failed.traceback:
        say(report.failed.traceback.rstrip(), stderr)
    shown = report.outcomes[:_SHOWN] if len(report.outcomes) > 1 else []
    for outcome in shown:
        say(f"   thread {outcome.index}: {_result(outcome)}", stderr)
    if len(report.outcomes) > _SHOWN:
        say(f"   … and {len(report.outcomes) - _SHOWN:,} more: --json prints all", stderr)
    for warning in report.warnings:
        say(f"warning: {warning}", stderr)


def _result(outcome: "Outcome") -> str:
    if outcome.error is not None:
        return f"{outcome.error.kind}: {outcome.error.message}"
    if outcome.not_applicable is not None:
        return f"does not apply: {outcome.not_applicable}"
    return cell(outcome.score) + (f" ({outcome.reason})" if outcome.reason else "")
