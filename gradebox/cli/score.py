"""`gradebox score`"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

import typer

from gradebox.cli.command import Invocation
from gradebox.cli.files import ColumnChoice, check_writable, columns, open_threads, opened, refuse_same_file
from gradebox.cli.output import as_json, console, fail, note, summary
from gradebox.errors import ApiError, BatchFailed, ConnectionFailed
from gradebox.terminal_text import plain_json

if TYPE_CHECKING:
    from gradebox.client import BatchHandle
    from gradebox.outcome import Outcome
    from gradebox.schemas import BatchBudget

FIRST_OUTCOMES = 100_000  # outcomes that are searched for errors to print


def score(
    invocation: Invocation,
    grader: Annotated[
        str,
        typer.Argument(
            metavar="GRADER[@VERSION]",
            help="The grader; its newest version if none. Several: a,b@2, or a=0.7,b@2=0.3 with weights, which are 1 "
            "by default.",
        ),
    ],
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE.jsonl", help="Threads, one per line; - is stdin."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="OUT.jsonl", help="File for the outcomes; - is stdout.")
    ] = None,
    column: ColumnChoice = None,
    threads_of: Annotated[
        str | None, typer.Option(metavar="BATCH", help="Score the threads of another batch instead of a file.")
    ] = None,
    budget_usd: Annotated[
        float | None, typer.Option(min=0, help="Maximum cost of graders' asks. Further completions get errors.")
    ] = None,
    budget_tokens: Annotated[int | None, typer.Option(min=0, help="Maximum tokens of graders' asks.")] = None,
    replies: Annotated[
        Literal["kept", "new"],
        typer.Option(help="Whether kept replies may answer graders' asks, or each ask is sent anew."),
    ] = "kept",
    detach: Annotated[bool, typer.Option("--detach", help="Print the batch's id and do not wait.")] = False,
) -> None:
    """Scores a file of threads as a batch, with a progress bar, and prints a summary."""
    if detach and output is not None:
        raise typer.BadParameter("--detach does not wait for outcomes: leave out --output", param_hint="-o")
    if (file is None) == (threads_of is None):
        raise typer.BadParameter("name a file of threads, or a batch with --threads-of", param_hint="FILE.jsonl")
    if output is not None:
        check_writable(output)
        if file is not None:
            refuse_same_file(file, output)
    budget = budget_of(budget_usd, budget_tokens)
    with _uploading(file) as threads:
        try:
            batch = invocation.client.batches.create(
                _graders(grader),
                threads,
                threads_of=threads_of,
                columns=columns(column),
                budget=budget,
                replies=replies,
            )
        except (TypeError, ValueError) as error:
            fail(f"{file or threads_of}: {error}", 2)
    if detach:
        return invocation.say(batch.status, batch.id)
    note(f"batch {batch.id}")
    return _finish(invocation, batch, file, output)


def _finish(invocation: Invocation, batch: "BatchHandle", file: Path | None, output: Path | None) -> None:
    """Waits for the end of a batch, writes its outcomes and prints its summary. Exits 1 if it has no score."""
    failure = watch(batch)
    to_stdout = output is not None and str(output) == "-"
    if output is not None:
        with opened(output) as out:
            write_outcomes(batch.outcomes(), out)
    if invocation.json and not to_stdout:
        as_json(batch.status)
    elif not invocation.json:
        summary(batch.status, stderr=to_stdout)
    if failure:
        fail(failure, 1)
    if batch.status.errors:
        note_errors(batch)
    if not batch.status.scored:
        fail(f"no completion of batch {batch.id} has a score{_why_none(batch, file)}", 1)


def _why_none(batch: "BatchHandle", path: Path | None) -> str:
    """Why a batch has no score: all outcomes are not applicable, or no line of the file is a thread."""
    if passed_over := batch.status.not_applicable:
        return f": {passed_over:,} of {batch.status.done:,} outcomes are not applicable"
    if set(batch.status.errors) != {"bad_input"} or path is None or not path.is_file():
        return ""
    with path.open("rb") as file:
        start = file.readline(60).decode("utf-8", "replace").rstrip()
    why = "" if start.startswith("{") else f". The file begins with {start!r}, and each line must be a JSON object"
    return f": no line of {path} is a thread{why}"


def note_errors(batch: "BatchHandle") -> None:
    """Prints on stderr the first error of each kind and grader, among the first outcomes."""
    left = {(one.grader, kind) for one in batch.status.summary for kind, count in one.errors.items() if count}
    for outcome in islice(batch.outcomes(), FIRST_OUTCOMES):
        error = outcome.error
        if error is not None and (outcome.grader, error.kind) in left:
            left.remove((outcome.grader, error.kind))
            of = f" of {outcome.grader}" if len(batch.status.graders) > 1 else ""
            note(f"{error.kind}{of}, first at thread {outcome.index}: {error.message}")
        if not left:
            break
    note(f"all errors: gradebox batches errors {batch.id}")
    if batch.status.retryable:
        note(f"to score again only the outcomes whose errors may be temporary: gradebox batches retry {batch.id}")


def budget_of(usd: float | None, tokens: int | None) -> "BatchBudget | None":
    """The budget in the options; None without them."""
    from gradebox.schemas import BatchBudget

    return None if usd is None and tokens is None else BatchBudget(usd=usd, tokens=tokens)


def _graders(text: str) -> str | list[str] | dict[str, float]:
    """Parses `a=0.7,b=0.3` as graders with their weights, `a,b` as graders without, and returns `a` unchanged. Raises
    typer.BadParameter.
    """
    if "," not in text and "=" not in text:
        return text
    found: dict[str, float] = {}
    for part in text.split(","):
        key, is_weighted, weight = part.partition("=")
        if key in found:
            raise typer.BadParameter(f"the grader {key!r} is named twice: name it once, with one weight")
        try:
            found[key] = float(weight) if is_weighted else 1.0
        except ValueError as error:
            raise typer.BadParameter(f"{part!r}: a weight is a number, as in {key}=0.5") from error
    return found if "=" in text else list(found)


def watch(batch: "BatchHandle") -> BatchFailed | None:
    """Waits for the end of a batch. Ctrl-C ends only the waiting, with a message; the batch continues."""
    try:
        batch.wait()
        add_combined(batch)
    except BatchFailed as failure:
        return failure
    except ConnectionFailed:
        note(f"batch {batch.id} goes on once its service is back: `gradebox batches watch {batch.id}`")
        raise
    except KeyboardInterrupt:
        note(
            f"\nno longer watching; the batch goes on. Watch it with `gradebox batches watch {batch.id}`, "
            f"or stop it with `gradebox batches cancel {batch.id}`"
        )
        raise typer.Exit(130) from None
    return None


def add_combined(batch: "BatchHandle") -> None:
    """Requests the summary of the combined outcomes of a batch, if it has some. Prints why, if it cannot be made."""
    if not batch.status.weighted:
        return
    try:
        batch.refresh(combined=True)
    except ApiError as error:
        note(f"the combined outcomes are not in the summary: {error}")


def write_outcomes(outcomes: Iterable["Outcome"], out: BinaryIO) -> None:
    """Writes outcomes as JSON lines."""
    from msgspec.json import Encoder

    encode = Encoder().encode_into
    line, is_shown = bytearray(), out.isatty()
    for outcome in outcomes:
        encode(outcome, line)
        line += b"\n"
        out.write(plain_json(line) if is_shown else line)
    out.flush()


@contextmanager
def _uploading(path: Path | None) -> Iterator[BinaryIO | None]:
    """Opens the file and shows a progress bar of the bytes read. Yields None without a file."""
    from rich.progress import wrap_file

    if path is None:
        yield None
        return
    bar = console(stderr=True)
    with open_threads(path) as file:
        if not bar.is_interactive or not path.is_file():
            yield file
            return
        size = path.stat().st_size
        with wrap_file(file, size, description="uploading", console=bar, transient=True) as reader:
            yield reader
