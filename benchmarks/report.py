"""Writes the results: a table on the terminal, results.json, results.md."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.results import Results, Row

FOLDER = Path(__file__).parent / "results"
PLOTS = ("speed", "alternatives", "latency", "resources")
_WIDE = 170  # columns of a terminal
CAVEATS = (
    "Ratios are of medians over interleaved runs in one process tree, with the quartiles of the ratios round by round. "
    "Between machines, and between runs on a busy one, ratios hold; seconds do not.",
    "Bare is: read the file, `json.loads` each line, build a `StringThread`, `await grade(thread)`, all in one "
    "`asyncio.run`, in a fresh process of the same interpreter. Starting it is not counted.",
    "Threads are made up, of 1.5 KB each. The graders are cheap ones, except difflib: a costlier one hides more of "
    "what isolation costs.",
    "The whole service is pinned with its client: API, worker, Redis, sandboxes and client share one core, or two "
    "where that is said. Uploads and outcomes are on disk (fsync) before they count, so the disk matters.",
    "Threads of a batch share a process (isolation `batch`) except where isolation per completion is named.",
)


def show(results: Results) -> None:
    """Prints the table. It includes how each figure was measured if the terminal is wide enough."""
    console = Console()
    if not console.is_terminal:
        console.width = _WIDE
    names = ["", "measure", "value", "quartiles", "target", "", *(["how"] if console.width >= _WIDE else [])]
    table = Table(title="gradebox benchmarks", title_justify="left")
    for name in names:
        table.add_column(name, justify="right" if name in ("value", "quartiles", "target") else "left")
    for group, row in results.grouped():
        if group:
            table.add_section()
        colour = {True: "green", False: "red", None: "default"}[row.met]
        value = f"[{colour}]{_number(row.value)} {row.unit}[/]"
        cells = [group, row.name, value, _quartiles(row), _target(row), _verdict(row), f"[dim]{row.note}"]
        table.add_row(*cells[: len(names)])
    console.print(table)
    for line in results.skipped:
        console.print(f"[yellow]not measured:[/] {line}")


def write(results: Results) -> None:
    """Writes results.json and results.md."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "results.json").write_text(json.dumps(asdict(results), indent=1, default=str) + "\n")
    (FOLDER / "results.md").write_text("\n".join(_markdown(results)) + "\n")


def _markdown(results: Results) -> Iterable[str]:
    machine = results.machine
    yield "# Benchmark results"
    yield ""
    yield f"{machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}, Python {machine['python']}."
    yield f"{machine['date']}, commit {machine['commit']}, load {machine['load_before']}, {machine['scale']} run."
    yield f"Versions: {', '.join(f'{name} {version}' for name, version in machine['versions'].items())}."
    yield ""
    yield from (f"![{name}]({name}.png)" for name in PLOTS)
    yield ""
    yield "| | measure | value | quartiles | target | | how |"
    yield "| --- | --- | ---: | ---: | ---: | --- | --- |"
    for group, row in results.grouped():
        value = f"**{_number(row.value)}** {row.unit}"
        yield f"| {' | '.join((group, row.name, value, _quartiles(row), _target(row), _verdict(row), row.note))} |"
    yield ""
    yield from (f"- Not measured: {line}." for line in results.skipped)
    yield from (f"- {line}" for line in CAVEATS)


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _quartiles(row: Row) -> str:
    return "" if row.low is None or row.high is None else f"{_number(row.low)} … {_number(row.high)}"


def _target(row: Row) -> str:
    return "" if row.target is None else f"{'≤' if row.at_most else '≥'} {row.target:g}"


def _verdict(row: Row) -> str:
    return {True: "met", False: "missed", None: ""}[row.met]
