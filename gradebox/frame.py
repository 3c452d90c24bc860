"""Outcomes and listings of the service as a pandas.DataFrame and as a notebook table."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from msgspec import to_builtins

from gradebox.notebook_tables import table, table_of
from gradebox.outcome import Outcome, Spent

SHOWN = 100  # maximum number of outcomes in a notebook table
_COLUMNS = (
    "index",
    "id",
    "grader",
    "score",
    "not_applicable",
    "reason",
    "details",
    "stdout",
    "run_ms",
    "no_completion",
)
_SPENT = Spent.__struct_fields__

_T = TypeVar("_T")


class Listing(list[_T]):
    """A list that a notebook shows as a table, with one column per given attribute."""

    def __init__(self, things: Iterable[_T] = (), names: Sequence[str] = ()) -> None:
        super().__init__(things)
        self._names = tuple(names)

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` with a row per item and the columns of the notebook table. Needs pandas."""
        from pandas import DataFrame

        rows = [[getattr(thing, name) for name in self._names] for thing in self]
        return DataFrame(rows, columns=list(self._names))

    def _repr_html_(self) -> str:
        return table_of(self, self._names)


class Outcomes(list[Outcome]):
    """A list of outcomes that a notebook shows as a table."""

    def to_pandas(self, threads: Sequence[object] | None = None) -> Any:
        """Return a `pandas.DataFrame` with a row per outcome. Needs pandas.

        The column `error` is the kind of the error, `message` its message, and `cause` the failure of the ask, if an
        ask failed. Each value of a `Score` has a column `values.NAME`. If there were asks, their costs are in columns
        such as `spent.asks`. The scores of a group are a list in `scores`, with None for each completion without a
        score; what else its completions have is a list of dicts in `completions`.

        Args:
            threads: one for each outcome; they become the column `thread`.
        """
        from pandas import DataFrame, Series

        frame = DataFrame([_row(outcome) for outcome in self], columns=_names(self))
        if any(outcome.id is None for outcome in self):  # pandas would round integer ids to floats
            frame["id"] = Series([outcome.id for outcome in self], dtype=object)
        return frame if threads is None else frame.assign(thread=list(threads))

    def _repr_html_(self) -> str:
        shown = [_row(outcome) for outcome in self[:SHOWN]]
        names = [name for name in _names(self[:SHOWN]) if any(row.get(name) not in (None, False) for row in shown)]
        rest = f"<p>… and {len(self) - SHOWN:,} more</p>" if len(self) > SHOWN else ""
        return table(names, [[row.get(name) for name in names] for row in shown]) + rest


def _row(outcome: Outcome) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(outcome, name) for name in _COLUMNS}
    row["error"] = outcome.error and outcome.error.kind
    row["message"] = outcome.error and outcome.error.message
    row["cause"] = outcome.error and outcome.error.cause
    if outcome.scores is not None:
        row["scores"] = outcome.scores
    if outcome.completions is not None:
        row["completions"] = to_builtins(outcome.completions)
    spent = {f"spent.{name}": getattr(outcome.spent, name) for name in _SPENT} if outcome.spent is not None else {}
    return row | spent | {f"values.{name}": value for name, value in (outcome.values or {}).items()}


def _names(outcomes: Iterable[Outcome]) -> list[str]:
    found = list(outcomes)
    values = {f"values.{name}": None for outcome in found for name in outcome.values or {}}
    cause = ["cause"] if any(outcome.error is not None and outcome.error.cause for outcome in found) else []
    spent = [f"spent.{name}" for name in _SPENT] if any(outcome.spent is not None for outcome in found) else []
    group = [name for name in ("scores", "completions") if any(getattr(one, name) is not None for one in found)]
    return [*_COLUMNS[:4], *group, "error", "message", *cause, *_COLUMNS[4:], *values, *spent]
