"""`gradebox score`"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from gradebox.cli.command import Invocation, client_command
from gradebox.cli.files import open_threads
from gradebox.cli.output import as_json, console, fail, note, summary
from gradebox.errors import BatchFailed

if TYPE_CHECKING:
    from gradebox.client import BatchHandle
    from gradebox.outcome import Outcome


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    client_command(app)(score)


def score(
    invocation: Invocation,
    grader: Annotated[str, typer.Argument(metavar="GRADER[@VERSION]", help="The grader; its newest version if none.")],
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE.jsonl", help="Threads, one a line; - is stdin."),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="OUT.jsonl", help="Where outcomes go; - is stdout.")
    ] = None,
) -> None:
    """Scores a file of threads as a batch, with a progress bar, and prints a summary."""
    to_stdout = output is not None and str(output) == "-"
    with _opened(output) as out:
        with _uploading(file) as threads:
            batch = invocation.client.batches.create(grader, threads)
        failure = watch(batch)
        if out is not None:
            write_outcomes(batch.outcomes(), out)
    if invocation.json and not to_stdout:
        as_json(batch.status)
    elif not invocation.json:
        summary(batch.status, stderr=to_stdout)
    if failure:
        fail(failure, 1)


def watch(batch: "BatchHandle") -> BatchFailed | None:
    """Waits for the end of a batch. Ctrl-C ends the waiting and not the batch, and says so."""
    try:
        batch.wait()
    except BatchFailed as failure:
        return failure
    except KeyboardInterrupt:
        note(
            f"\nno longer watching; the batch goes on. Watch it with `gradebox batches watch {batch.id}`, "
            f"or stop it with `gradebox batches cancel {batch.id}`"
        )
        raise typer.Exit(130) from None
    return None


def write_outcomes(outcomes: Iterable["Outcome"], out: BinaryIO) -> None:
    """Writes outcomes as JSON lines."""
    from msgspec.json import Encoder

    encode = Encoder().encode_into
    line = bytearray()
    for outcome in outcomes:
        encode(outcome, line)
        line += b"\n"
        out.write(line)
    out.flush()


@contextmanager
def _uploading(path: Path) -> Iterator[BinaryIO]:
    """The file, with a bar that shows how much of it has been read."""
    from rich.progress import wrap_file

    bar = console(stderr=True)
    with open_threads(path) as file:
        if not bar.is_terminal or not path.is_file():
            yield file
            return
        size = path.stat().st_size
        with wrap_file(file, size, description="uploading", console=bar, transient=True) as reader:
            yield reader


def _opened(output: Path | None) -> AbstractContextManager[BinaryIO | None]:
    if output is None:
        return nullcontext()
    if str(output) == "-":
        return nullcontext(sys.stdout.buffer)
    try:
        return output.open("wb")
    except OSError as error:
        raise typer.BadParameter(f"{output} cannot be written: {error.strerror}", param_hint="-o") from error
