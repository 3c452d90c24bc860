"""Templates, and the files that pages load."""

import hashlib
import json
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

_FOLDER = Path(__file__).parent
STATIC = _FOLDER / "static"
_LARGE = 1e15  # from here on, by powers of ten
_MOST_DIGITS = 9  # what differs later comes of adding up
MOST_SHOWN = 100_000  # characters of one text
_encoder = json.JSONEncoder(ensure_ascii=False, indent=2)


def _number(value: float | None, digits: int = 4) -> str:
    """As people read it: `0.25`, `1,234`; a dash for none. So many digits, and more where fewer would make it a whole
    number: 0.99999 is none.
    """
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) >= 10**digits:
        return f"{value:,.0f}" if abs(value) < _LARGE else f"{value:.{digits}g}"
    for more in (digits, *range(digits + 1, _MOST_DIGITS + 1)):
        shown = float(f"{value:.{more}g}")
        if shown == value or not shown.is_integer():
            return f"{shown + 0.0:,.10g}"  # zero has no sign
    return f"{round(value)}"


def as_json(value: object) -> str:
    """A value as people read it, or as much of that as is shown: what is nested deeply is mostly indentation."""
    pieces, size = [], 0
    for piece in _encoder.iterencode(value):  # it ends before it recurses too deeply
        pieces.append(piece)
        size += len(piece)
        if size > MOST_SHOWN:
            return "".join(pieces)[:MOST_SHOWN] + "…"
    return "".join(pieces)


def _time(value: datetime | None) -> str:
    return "–" if value is None else value.strftime("%Y-%m-%d %H:%M:%S")


@cache
def static(name: str) -> str:
    """The URL of a file of `static/`: another one where the file is another, so browsers may keep it for ever."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/ui/static/{name}?v={digest}"


# Every template is escaped, whatever its name ends in: what tenants write stands in all of them.
_environment = Environment(
    loader=FileSystemLoader(_FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.globals["static"] = static
_environment.filters |= {"number": _number, "time": _time, "as_json": as_json}


def rendered(template: str, **values: Any) -> bytes:
    """The text of a page, or of a part of one. What is half an emoji in a thread is a question mark here."""
    return _environment.get_template(template).render(values).encode("utf-8", "replace")


def page(template: str, status: int = 200, headers: dict[str, str] | None = None, **values: Any) -> HTMLResponse:
    """As a response."""
    return HTMLResponse(rendered(template, **values), status, headers)
