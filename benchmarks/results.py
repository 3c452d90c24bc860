"""What a run found: rows, and the series that plots are drawn from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.timing import Spread

BARE, MICROS, MILLIS, RATE, MEBIBYTES, PERCENT, TIMES = "× bare", "µs", "ms", "/s", "MiB", "%", "×"


@dataclass
class Row:
    """One figure.

    Attributes:
        target: what it must at least be, or at most where `at_most`; None where nothing was asked.
        low, high: its quartiles, where it was measured several times.
    """

    group: str
    name: str
    value: float
    unit: str
    target: float | None = None
    at_most: bool = False
    low: float | None = None
    high: float | None = None
    runs: int = 1
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether it is as good as it must be."""
        if self.target is None:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target


@dataclass
class Results:
    """All of one run. `series` are named curves; `skipped` says what was not measured and why."""

    machine: Mapping[str, Any]
    rows: list[Row] = field(default_factory=list)
    series: dict[str, object] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def add(self, group: str, name: str, value: float | Spread, unit: str, **more: object) -> Row:
        """A new row; quartiles come from a Spread."""
        row = Row(group, name, value.median if isinstance(value, Spread) else value, unit, **more)  # type: ignore[arg-type]  # fields of Row
        if isinstance(value, Spread):
            row.low, row.high, row.runs = value.low, value.high, value.runs
        self.rows.append(row)
        return row

    def of(self, *groups: str) -> list[Row]:
        """The rows of these groups."""
        return [row for row in self.rows if row.group in groups]

    def grouped(self) -> Iterator[tuple[str, Row]]:
        """Each row, group by group; the name of a group comes with its first row alone."""
        for group in dict.fromkeys(row.group for row in self.rows):
            for number, row in enumerate(self.of(group)):
                yield "" if number else group, row
