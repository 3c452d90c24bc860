"""The files that commands read and write."""

import codecs
import errno
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count, islice
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal

import typer

from gradebox._openai import openai_grader
from gradebox.cli.output import fail, note
from gradebox.limits import REQUEST_THREADS

if TYPE_CHECKING:
    from gradebox.client.thread_line import Thread

_STDIN, _STDOUT = 0, 1
GraderFile = Annotated[
    Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="The file with `async def grade(thread)`.")
]
Contract = Literal["gradebox", "openai"]
ContractChoice = Annotated[
    Contract,
    typer.Option("--contract", help="What FILE defines: `grade(thread)`, or `grade(sample, item)` as for OpenAI."),
]
FunctionChoice = Annotated[
    str | None,
    typer.Option(
        "--function",
        metavar="NAME",
        help="Import FILE here, and take this function of it, with what it uses of your other modules.",
    ),
]
ThreadsFile = Annotated[
    Path | None,
    typer.Option(
        "--threads", metavar="FILE", exists=True, dir_okay=False, help="Threads for the test run, as JSON lines."
    ),
]
ColumnChoice = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="NAME=MEMBER",
        help="For a file with rows of a dataset: use this column as prompt, completion, messages or id of a thread. "
        "May be repeated. All other columns become metadata.",
    ),
]


def read_source(path: Path, contract: Contract, function: str | None) -> str:
    """A grader's source, without a byte order mark. With OpenAI's contract, a JSON grader gives its `source`.

    Args:
        path: the file.
        contract: what the file or the function is.
        function: a function of the file, which is imported. Prints how the copy that is uploaded differs from it.

    Raises:
        ValueError: the file is not UTF-8, or a JSON grader that has no source.
        SourceError: the file cannot be imported, or the function cannot stand alone.
    """
    if function is not None:
        from gradebox.cli.functions import source_of_function

        return source_of_function(path, function, plain=contract == "openai")
    source = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    try:
        text = source.decode("utf-8")
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path} is not UTF-8: byte 0x{source[error.start]:02x} in line {line}; save it as UTF-8"
        ) from error
    return openai_grader(_without_json(text, path)) if contract == "openai" else text


def source_or_exit(path: Path, contract: Contract, function: str | None) -> str:
    """As `read_source`. Exits 1 if the file holds no source."""
    try:
        return read_source(path, contract, function)
    except ValueError as error:
        fail(error, 1)


def _without_json(text: str, path: Path) -> str:
    """The `source` of a JSON grader; any other text as it is."""
    try:
        grader = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(grader, dict):
        return text
    if grader.get("type") != "python" or not isinstance(source := grader.get("source"), str):
        raise ValueError(
            f"{path} is a JSON grader of the type {grader.get('type')!r:.80}: only the type 'python', with its source, "
            "can be kept as a grader. Write a Python grader, or a judge"
        )
    return source


def read_threads(path: Path | None, column: list[str] | None = None) -> "list[Thread] | None":
    """The threads for a test run in a file of JSON lines, or of rows whose columns are named; None without a file.

    White space at the very end is no line, as in a batch. Exits 2 if a line is no thread, which the message names, or
    if the file is of another kind.

    Raises:
        typer.BadParameter: a line is no JSON object, or a column is wrong or has no file.
    """
    if path is None:
        if column:
            raise typer.BadParameter("name the file of rows with --threads", param_hint="--column")
        return None
    from gradebox.client.dataset_rows import with_columns
    from gradebox.client.thread_line import to_line
    from gradebox.client.threads import check_kind, each_of

    if not path.stat().st_size:
        raise typer.BadParameter(f"{path} is empty: write at least one thread, one JSON object a line")
    with path.open("rb") as file:
        text = b"".join(islice(file, REQUEST_THREADS))
        more = any(line.strip() for line in file)
    lines = (text if more else text.rstrip()).splitlines()
    try:
        check_kind(text)
        rows = [_row(line, number, path) for number, line in enumerate(lines, 1)]
        if more:
            note(f"the test run takes the first {REQUEST_THREADS:,} threads in {path}")
        threads = list(each_of(with_columns(rows, columns(column))))
        for number, thread in enumerate(threads):
            to_line(thread, number)
    except (TypeError, ValueError) as error:
        fail(f"{path}: {error}", 2)
    return threads


def _row(line: bytes, number: int, path: Path) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        why: object = error
        if isinstance(error, json.JSONDecodeError):
            why = f"{error.msg.removesuffix(' at')} at position {error.pos}"
        raise typer.BadParameter(f"line {number} of {path} is no JSON: {why}") from error
    if not isinstance(row, dict):
        raise typer.BadParameter(f"line {number} of {path} is not a thread: a thread is a JSON object")
    return row


def columns(named: list[str] | None) -> dict[str, str] | None:
    """Parses options such as `question=prompt` for `columns=`. Raises typer.BadParameter."""
    if named is None:
        return None
    wrong = [one for one in named if "=" not in one]
    if wrong:
        raise typer.BadParameter(f"{wrong[0]!r}: write NAME=MEMBER, as in question=prompt", param_hint="--column")
    pairs = [one.split("=", 1) for one in named]
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise typer.BadParameter(
                f"the column {name!r} is named twice: one column is one member of a thread", param_hint="--column"
            )
    return dict(pairs)


def open_threads(path: Path) -> BinaryIO:
    """The file of JSON lines, or standard input for `-`. Raises typer.BadParameter if it cannot be read."""
    if str(path) == "-":
        return sys.stdin.buffer
    try:
        return path.open("rb")
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}") from error


def check_writable(output: Path) -> None:
    """Raises typer.BadParameter if the file cannot be written, before a batch is created.

    The file is opened later, so that Ctrl-C leaves no empty file.
    """
    place = output if output.exists() else output.parent
    if str(output) == "-":
        return
    if output.is_dir():
        reason = errno.EISDIR
    elif not place.exists():
        reason = errno.ENOENT
    elif not os.access(place, os.W_OK):
        reason = errno.EACCES
    else:
        return
    raise typer.BadParameter(f"{output} cannot be written: {os.strerror(reason)}", param_hint="-o")


def refuse_same_file(threads: Path, output: Path) -> None:
    """Raises typer.BadParameter if the outcomes would overwrite the threads. `-` is a standard stream, which may be a
    file: `- -o t.jsonl < t.jsonl`.
    """
    read, written = _status(threads, _STDIN), _status(output, _STDOUT)
    if read is not None and written is not None and S_ISREG(read.st_mode) and os.path.samestat(read, written):
        name = "standard output" if str(output) == "-" else output
        raise typer.BadParameter(
            f"{name} is the file of the threads, which the outcomes would overwrite: name another", param_hint="-o"
        )


def _status(path: Path, stream: int) -> os.stat_result | None:
    """The status of a file, or of a standard stream for `-`. None if there is no such file."""
    with suppress(OSError):
        return os.fstat(stream) if str(path) == "-" else path.stat()
    return None


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, or standard output for `-`. The file replaces an older one once all of it is written. Until
    then it is `FILE.part`, which stays after an error; `FILE.2.part` and so on beside one that another run writes or
    has left.

    Raises:
        typer.BadParameter: it cannot be written.
        OSError: not all of it could be written, for example because the disk is full.
    """
    if str(path) == "-":
        yield sys.stdout.buffer
        return
    own, target = path, path.resolve()
    if (path.is_file() or not path.exists()) and os.access(target.parent, os.W_OK):  # not a pipe or a device
        names = chain(["part"], (f"{number}.part" for number in count(2)))
        own = next(part for name in names if not (part := target.with_name(f"{target.name}.{name}")).exists())
    try:
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        file = own.open("wb" if own is path else "xb")
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be written: {error.strerror}", param_hint="-o") from error
    try:
        with file:
            yield file
        if own is not path:
            if target.exists():
                shutil.copymode(target, own)
            shutil.move(own, target, shutil.copyfile)  # copies it if the older file is a mount, or may not be replaced
    except BaseException as error:
        if own is not path and own.exists():  # an interrupt may come once it was moved
            if own.stat().st_size:
                note(f"not all of {path} could be written: what there is stays in {own}")
            else:
                own.unlink()
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = str(path)  # of a failed write; a timeout has no number
        raise
