"""What commands print: tables for people, JSON for programs, errors on stderr."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console

    from gradebox.schemas import Batch, Summary

QUANTILES = ("p05", "p25", "p50", "p75", "p95")
_WIDE = 240  # columns where no terminal sets a bound: a pipe cuts nothing off
_VISIBLE = {code: repr(chr(code))[1:-1] for code in [*range(32), *range(127, 160)] if chr(code) not in "\n\t"}


def console(stderr: bool = False) -> "Console":
    """A console that takes text as it is: no markup is read in it."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, markup=False, highlight=False, soft_wrap=True, width=None if stream.isatty() else _WIDE)


def say(text: str) -> None:
    """Prints to stdout; control characters are made visible, for what graders write may hold some."""
    console().print(plain(text))


def note(text: str) -> None:
    """Prints to stderr."""
    console(stderr=True).print(plain(text))


def fail(error: Exception | str, code: int) -> NoReturn:
    """Says on stderr what went wrong, and exits."""
    note(f"gradebox: {error}")
    sys.exit(code)


def plain(text: str) -> str:
    """The text with its control characters made visible."""
    return text.translate(_VISIBLE).encode("utf-8", "backslashreplace").decode()


def as_json(value: "BaseModel | Sequence[BaseModel] | dict[str, object]") -> None:
    """Prints JSON."""
    from pydantic_core import to_json

    typer.echo(to_json(value, indent=2))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], stderr: bool = False) -> None:
    """Prints rows under their column names; numbers are set to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        numeric = any(isinstance(row[number], int | float) for row in rows)
        drawn.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(plain(cell(value))) for value in row))
    console(stderr).print(drawn)


def cell(value: object) -> str:
    """A value as a table shows it."""
    from datetime import datetime

    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{float(f'{value:.4g}'):,.10g}"  # four digits, and 24,000 in place of 2.4e+04
    if isinstance(value, int):
        return f"{value:,}"
    return value.strftime("%Y-%m-%d %H:%M:%S") if isinstance(value, datetime) else str(value)


def summary(batch: "Batch", stderr: bool = False) -> None:
    """Prints what the scores of a batch look like, and what is odd about them."""
    columns = ["grader", "count", "mean", "deviation", "min", *QUANTILES, "max", "errors"]
    table(columns, [_summary_row(each) for each in batch.summary], stderr)
    values = [
        (each.grader, name, one.count, one.mean, one.minimum, one.maximum)
        for each in batch.summary
        for name, one in each.values.items()
    ]
    if values:
        table(["grader", "value", "count", "mean", "min", "max"], values, stderr)
    lines = [f"warning: {each.grader}: {warning}" for each in batch.summary for warning in each.warnings]
    if len(batch.graders) > 1 and batch.weighted_mean is not None:
        of = " (each mean is of the completions that its grader scored)" if batch.errors else ""
        lines.insert(0, f"weighted mean: {cell(batch.weighted_mean)}{of}")
    for line in lines:
        console(stderr).print(plain(line))


def errors(counts: dict[str, int]) -> str:
    """Errors by kind, in words."""
    return ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()) if count) or "none"


def _summary_row(one: "Summary") -> list[object]:
    quantiles = [one.quantiles.get(name) for name in QUANTILES]
    return [one.grader, one.count, one.mean, one.deviation, one.minimum, *quantiles, one.maximum, errors(one.errors)]
