"""The output of commands: tables for people, JSON for programs, errors on stderr."""

import sys
from collections.abc import Iterable, Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING, Literal, NoReturn

import typer

from gradebox.number_text import number_text
from gradebox.terminal_text import plain, plain_json

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console

    from gradebox.schemas import Batch, Summary

SPENT = ("asks", "kept", "input tokens", "output tokens", "USD")  # the names of `Spending.cells`
QUANTILES = ("p05", "p25", "p50", "p75", "p95")
_WIDE = 240  # columns without a terminal, so that output to a pipe is not cut off
# Columns with texts of people, models and graders, whose long words may be divided.
_FREE_TEXT = {"completion", "description", "feedback", "its message", "message", "reason or error", "the first"}
_ONE_LINE = {"description"}  # of these, a terminal shows what fits into one line
_LEAST_TEXT = 20  # characters of such a column
_BETWEEN = 3  # spaces between two columns


def console(stderr: bool) -> "Console":
    """A console that prints text unchanged, without interpreting markup."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")  # a pipe's code page on Windows has no ✓
    return Console(file=stream, markup=False, highlight=False, soft_wrap=True, width=None if stream.isatty() else _WIDE)


def say(text: str, stderr: bool = False) -> None:
    """Prints to stdout with control characters made visible, because graders' texts may contain some."""
    console(stderr).print(plain(text))


def note(text: str) -> None:
    """Prints to stderr."""
    say(text, stderr=True)


def fail(error: Exception | str, code: int) -> NoReturn:
    """Prints an error on stderr, and exits."""
    note(f"gradebox: {error}")
    sys.exit(code)


def as_json(value: "BaseModel | Sequence[BaseModel] | dict[str, object]") -> None:
    """Prints JSON."""
    from pydantic_core import to_json

    typer.echo(plain_json(to_json(value, indent=2)))


def verbatim(text: str) -> None:
    """Prints a source to stdout: unchanged to a file, and as `say` does to a terminal."""
    typer.echo(plain(text) if sys.stdout.isatty() else text.encode("utf-8", "surrogatepass"), nl=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], stderr: bool = False) -> None:
    """Prints rows under their column names, with numbers aligned to the right.

    A number or an id is never divided: if the table is too wide for the terminal, each row is printed as a block.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    cells = [[plain(cell(value)) for value in row] for row in rows]
    out = console(stderr)
    widths = _widths([columns, *cells], [column in _FREE_TEXT for column in columns], out.width)
    if widths is None and rows:
        return say("\n" + "".join(f"{_block(columns, row)}\n\n" for row in cells).removesuffix("\n"), stderr)
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        numeric = any(isinstance(row[number], int | float) for row in rows)
        justify: Literal["left", "right"] = "right" if numeric else "left"
        cut = out.is_terminal and column in _ONE_LINE
        overflow: Literal["ellipsis", "fold"] = "ellipsis" if cut else "fold"
        width = widths[number] if widths else None
        drawn.add_column(column, justify=justify, overflow=overflow, no_wrap=cut, width=width)
    for texts in cells:
        drawn.add_row(*map(Text, texts))
    return out.print(drawn)


def _widths(lines: Sequence[Sequence[str]], free: Sequence[bool], most: int) -> list[int] | None:
    """The widths of the columns, or None if words would be divided in columns that are not free text."""
    from rich.cells import cell_len

    columns = list(zip(*lines, strict=True))
    words = [max(cell_len(word) for text in column for word in text.split() or [""]) for column in columns]
    widths = [min(word, _LEAST_TEXT) if is_free else word for word, is_free in zip(words, free, strict=True)]
    spare = most - sum(widths) - _BETWEEN * len(widths)
    if spare < 0:
        return None
    lengths = (max(cell_len(line) for text in column for line in text.split("\n")) for column in columns)
    wanted = [length - width for length, width in zip(lengths, widths, strict=True)]
    left = len(widths)
    for number in sorted(range(left), key=wanted.__getitem__):  # an equal share for each, or less if it wants less
        more = min(wanted[number], spare // left)
        widths[number] += more
        spare, left = spare - more, left - 1
    return widths


def _block(columns: Sequence[str], row: Sequence[str]) -> str:
    """A row as a line for each column."""
    width = max(map(len, columns))
    return "\n".join(f"{column:{width}}  {text}" for column, text in zip(columns, row, strict=True))


def cell(value: object) -> str:
    """A value as text for a table."""
    from datetime import datetime

    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, int):
        return f"{value:,}"
    return value.strftime("%Y-%m-%d %H:%M:%S") if isinstance(value, datetime) else str(value)


def id_text(identity: str | int | None) -> str | None:
    """The id of a thread for a table: as it is, also if it is a number."""
    return None if identity is None else str(identity)


def summary(batch: "Batch", stderr: bool = False) -> None:
    """Prints statistics of the scores of a batch, and warnings about them."""
    summaries(batch.summaries, stderr)
    if len(batch.graders) > 1 and batch.weighted_mean is not None and batch.combined is None:
        is_whole = not batch.errors and not batch.not_applicable
        of = "" if is_whole else " (each mean is of the completions that its grader scored)"
        say(f"weighted sum of the means: {cell(batch.weighted_mean)}{of}", stderr)


def summaries(found: "Sequence[Summary]", stderr: bool = False) -> None:
    """Prints statistics of graders' scores and values, the spending of their asks, and warnings about the scores."""
    columns = ["grader", "count", "mean", "deviation", "min", *QUANTILES, "max", "errors"]
    rows = [_summary_row(each) for each in found]
    if any(each.not_applicable for each in found):
        columns.append("not applicable")
        rows = [[*row, each.not_applicable] for row, each in zip(rows, found, strict=True)]
    table(columns, rows, stderr)
    values = [
        (each.grader, name, one.count, one.mean, one.minimum, one.maximum)
        for each in found
        for name, one in each.values.items()
    ]
    if values:
        table(["grader", "value", "count", "mean", "min", "max"], values, stderr)
    intervals = [_interval_row(each) for each in found if each.scored]
    if intervals:
        table(["grader", "95% interval of the mean", "method", "passed", "pass rate"], intervals, stderr)
    options = [(each.grader, option, count) for each in found for option, count in each.options.items()]
    if options:
        table(["grader", "option", "count"], options, stderr)
    for each in found:
        if (bias := each.positional_bias) is not None:
            say(f"{each.grader}: {bias.detected:,} of {bias.checked:,} decisions differ in the other order", stderr)
    spent = [(each.grader, *each.spent.cells) for each in found if each.spent is not None]
    if spent:
        table(["grader", *SPENT], spent, stderr)
    for each in found:
        for warning in each.warnings:
            say(f"warning: {each.grader}: {warning}", stderr)


def errors(counts: dict[str, int]) -> str:
    """The numbers of errors by kind, as text."""
    return ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()) if count) or "none"


def _summary_row(one: "Summary") -> list[object]:
    quantiles = [one.quantiles.get(name) for name in QUANTILES]
    return [one.grader, one.count, one.mean, one.deviation, one.minimum, *quantiles, one.maximum, errors(one.errors)]


def _interval_row(one: "Summary") -> tuple[object, ...]:
    if one.interval is None:
        return one.grader, None, None, one.passed, one.pass_rate
    bounds = f"{cell(one.interval.low)} to {cell(one.interval.high)}"
    method = {"bca": "bootstrap (BCa)", "normal": "normal"}[one.interval.method]
    return one.grader, bounds, method, one.passed, one.pass_rate
