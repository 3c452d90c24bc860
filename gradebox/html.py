"""Tables for notebooks. What graders and models wrote is in them, so all of it is escaped."""

from collections.abc import Iterable, Sequence
from html import escape

_CHARACTERS = 300  # of a cell


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """A table with these columns."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if value is None:
        return "<td></td>"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"<td>{escape(text if len(text) <= _CHARACTERS else text[:_CHARACTERS] + '…')}</td>"
