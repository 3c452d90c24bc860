"""Tables for notebooks. They contain text written by graders and models, so every cell is escaped."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape

from gradebox.number_text import number_text

_CHARACTERS = 300  # maximum per cell


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """Return an HTML table with these columns."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def table_of(things: Iterable[object], names: Sequence[str]) -> str:
    """Return an HTML table of objects, with one column per attribute."""
    columns = [f"{name.removesuffix('_at')} (UTC)" if name.endswith("_at") else name for name in names]
    return table(columns, [[getattr(thing, name) for name in names] for thing in things])


def _cell(value: object) -> str:
    text = _text(value)
    return f"<td>{escape(text if len(text) <= _CHARACTERS else text[:_CHARACTERS] + '…')}</td>"


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, datetime):
        return f"{value:%F %T}"
    if isinstance(value, dict):
        return ", ".join(f"{number} {name}" for name, number in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
