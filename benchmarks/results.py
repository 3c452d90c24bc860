"""The results of a run: rows, and the series that plots show."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.timing import Spread

BARE, MICROS, MILLIS, RATE, MEBIBYTES, PERCENT, TIMES = "× bare", "µs", "ms", "/s", "MiB", "%", "×"


@dataclass
class Row:
    """One figure.

    Attributes:
        target: the least value that is good enough, or the greatest if `at_most`; None if there is no target.
        low, high: the quartiles, if it was measured several times.
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
        """Whether the target is met; None without a target."""
        if self.target is None:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target


@dataclass
class Results:
    """All results of a run. `series` are named curves; `skipped` lists what was not measured and why."""

    machine: Mapping[str, Any]
    rows: list[Row] = field(default_factory=list)
    series: dict[str, object] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def add(self, group: str, name: str, value: float | Spread, unit: str, **more: object) -> Row:
        """Adds a row and returns it. Its quartiles come from a Spread."""
        row = Row(group, name, value.median if isinstance(value, Spread) else value, unit, **more)  # type: ignore[arg-type]  # fields of Row
        if isinstance(value, Spread):
            row.low, row.high, row.runs = value.low, value.high, value.runs
        self.rows.append(row)
        return row

    def of(self, *groups: str) -> list[Row]:
        """The rows of these groups."""
        return [row for row in self.rows if row.group in groups]

    def grouped(self) -> Iterator[tuple[str, Row]]:
        """All rows, group by group. Only the first row of a group has the name of the group."""
        for group in dict.fromkeys(row.group for row in self.rows):
            for number, row in enumerate(self.of(group)):
                yield "" if number else group, row
