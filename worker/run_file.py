"""`gradebox run`: checks a grader and scores a file of threads in a sandbox on this machine, without a service."""

import argparse
import logging
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, repeat
from pathlib import Path
from typing import BinaryIO

import typer

from gradebox.cli import output, score, validate
from gradebox.cli.files import columns, open_threads, opened, read_source, refuse_same_file
from gradebox.client.dataset_rows import with_columns
from gradebox.client.environment_data import zipped
from gradebox.client.threads import blocks
from gradebox.errors import GradeboxError
from gradebox.outcome import OutcomeError
from gradebox.schemas import Report
from sandbox.errors import InfrastructureError, IsolationUnavailable
from sandbox.grader_source import GraderSource
from sandbox.grading.five_checks import TEST_RUN_S
from sandbox.grading.grading import Grading
from sandbox.grading.source_bytes import SourceRefused, from_bytes
from sandbox.limits import ENVIRONMENT_MEMORY_MB, MEMORY_MB, TIMEOUT_S
from sandbox.pool.pool import Pool, open_pool
from sandbox.settings import settings_or_exit
from storage.spool.blocks import lines_of
from storage.statistics.outcome_tally import Tally, merged, tally
from storage.statistics.summary import summarise
from worker.environments import environment_cache, requirements
from worker.environments.package_isolation import Settled, settle
from worker.environments.settings import EnvironmentSettings
from worker.environments.uv import BuildFailed

TEST_THREADS = 10  # of the file, at most, for the test run of the checks
_SLICE_LINES, _SLICE_BYTES = 250, 8 << 20
_LINE_EVERY_S = 10.0


def main() -> int:
    """Returns 0 if the grader is valid and a completion has a score, 1 if not, 2 if the grader could not be tried, 130
    after Ctrl-C.
    """
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    arguments = _parser().parse_args()
    try:
        settings = settings_or_exit(warm_sandboxes=0)
        text = read_source(arguments.file, arguments.contract, arguments.function)
        source = from_bytes(text.encode(), settings.source_bytes)
        with open_pool(settings) as pool:
            return _run(pool, *_grader(source, pool, arguments), arguments)
    except SourceRefused as refused:
        return _report(refused.report, arguments.json)
    except typer.BadParameter as error:
        output.note(f"gradebox: {error.message}")
        return 2
    except (OSError, ValueError, GradeboxError, BuildFailed, InfrastructureError, IsolationUnavailable) as error:
        output.note(f"gradebox: {error}")
        return 2
    except KeyboardInterrupt:
        output.note("gradebox: interrupted")
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gradebox run")
    parser.add_argument("file", type=Path)
    parser.add_argument("--threads", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--column", action="append")
    parser.add_argument("--isolation", default="auto")
    parser.add_argument("--timeout-s", type=float, default=TIMEOUT_S)
    parser.add_argument("--memory-mb", type=int)
    parser.add_argument("--package", action="append", default=[])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--contract", default="gradebox")
    parser.add_argument("--function")
    parser.add_argument("--json", action="store_true")
    return parser


def _grader(source: str, pool: Pool, arguments: argparse.Namespace) -> tuple[GraderSource, Settled]:
    """The grader, in an environment if it needs packages or data. Raises what building the environment raises."""
    if not arguments.package and arguments.data is None:
        memory_mb = arguments.memory_mb or MEMORY_MB
        plain = GraderSource(source, arguments.isolation, arguments.timeout_s, memory_mb, project="")
        return plain, settle(arguments.isolation, ())
    data = None if arguments.data is None else zipped(arguments.data)
    wanted = requirements.read(arguments.package)
    built = environment_cache.environment_of(wanted, data, pool, EnvironmentSettings(), _Steps())
    settled = settle(arguments.isolation, built.packages)
    memory_mb = arguments.memory_mb or ENVIRONMENT_MEMORY_MB
    limits = settled.isolation, arguments.timeout_s, memory_mb
    return GraderSource(source, *limits, project="", environment=built.sha256), settled


class _Steps:
    """Prints each step of a build to stderr, once."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, step: str) -> None:
        """Prints a step, unless it is the same as the last one."""
        if step != self._last:
            output.note(f"environment: {step}")
        self._last = step


class _Progress:
    """Prints lines to stderr, one each ten seconds."""

    def __init__(self) -> None:
        self._shown_at = time.monotonic()

    def show(self, line: str) -> bool:
        """Prints the line if it is time for one. Returns False, so that a function which calls it can be the `stop` of
        a grading, which is called while a grader works.
        """
        if time.monotonic() >= self._shown_at + _LINE_EVERY_S:
            output.note(line)
            self._shown_at = time.monotonic()
        return False


def _run(pool: Pool, grader: GraderSource, settled: Settled, arguments: argparse.Namespace) -> int:
    if arguments.threads and arguments.output:
        refuse_same_file(arguments.threads, arguments.output)
    slices = _slices(arguments.threads, arguments.column) if arguments.threads else iter(())
    first = next(slices, None)
    if arguments.threads and first is None:
        raise ValueError(f"{arguments.threads} is empty: write at least one thread, one JSON object a line")
    name = arguments.function or arguments.file.stem
    tested = first and first[: max(1, min(TEST_THREADS, int(TEST_RUN_S // grader.timeout_s)))]
    progress = _Progress()
    report = settled.warn(pool.prove(grader, tested, lambda: progress.show(f"{name}: the checks run")))
    if not report.valid or first is None:
        return _report(report, arguments.json)
    to_stderr = str(arguments.output) == "-"
    if not arguments.json:
        validate.show(report, to_stderr)
    with _opened(arguments.output) as out, pool.grading(grader) as grading:
        counted, failed = _score(grading, chain([first], slices), name, out, progress)
    summary = summarise(name, 1.0, counted)
    if not arguments.json:
        output.summaries([summary], to_stderr)
    elif not to_stderr:
        output.as_json({"report": report, "summary": summary})
    for error, index in failed.values():
        output.note(f"{error.kind}, first at thread {index}: {error.message}")
    return 0 if counted.scored else 1


def _score(
    grading: Grading, slices: Iterable[list[bytes]], name: str, out: BinaryIO | None, progress: _Progress
) -> tuple[Tally, dict[str, tuple[OutcomeError, int]]]:
    """Scores the threads and writes their outcomes. Returns the tally, and the first error of each kind with the index
    of its thread.
    """
    counted = Tally()
    failed: dict[str, tuple[OutcomeError, int]] = {}

    def show(graded: int = 0) -> bool:
        return progress.show(f"{name}: {counted.count + graded:,} completions so far")

    for lines in slices:
        outcomes = grading.score(b"\n".join(lines), counted.count, name, len(lines), stop=show)
        counted = merged([counted, tally(outcomes)])
        for outcome in outcomes:
            if outcome.error is not None:
                failed.setdefault(outcome.error.kind, (outcome.error, outcome.index))
        if out is not None:
            score.write_outcomes(outcomes, out)
        show()
    return counted, failed


def _opened(path: Path | None) -> AbstractContextManager[BinaryIO | None]:
    return nullcontext() if path is None else opened(path)


def _slices(path: Path, named: list[str] | None) -> Iterator[list[bytes]]:
    """The lines of the file, in slices. White space at the end of the file is not a thread."""
    found: list[bytes] = []
    size = 0
    with open_threads(path) as file:
        for line in _lines(blocks(with_columns(file, columns(named)))):
            found.append(line)
            size += len(line)
            if len(found) == _SLICE_LINES or size > _SLICE_BYTES:
                yield found
                found, size = [], 0
    if found:
        yield found


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    blank = 0  # blank lines, which count only if a line that is not blank follows
    for line in lines_of(pieces):
        if not line.strip():
            blank += 1
            continue
        yield from repeat(b"", blank)
        blank = 0
        yield line


def _report(report: Report, as_json: bool) -> int:
    if as_json:
        output.as_json({"report": report})
    else:
        validate.show(report)
    return 0 if report.valid else 1


if __name__ == "__main__":
    sys.exit(main())
