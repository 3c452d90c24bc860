"""The template environment, and the URLs of static files."""

import hashlib
import json
from contextvars import ContextVar
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from api.services import Services
from gradebox.number_text import money_text, number_text
from gradebox.outcome import completion_scores, details_of

_FOLDER = Path(__file__).parent
STATIC = _FOLDER / "static"
MOST_SHOWN = 100_000  # characters of one text
root_path = ContextVar("root_path", default="")
"""Of the request: the setting. It is a part of all paths that a page has, and of none that a request has."""
_encoder = json.JSONEncoder(ensure_ascii=False, indent=2)


def _number(value: float | None, digits: int = 4) -> str:
    """Format a number: `0.25`, `1,234`; a dash for None."""
    return "–" if value is None else number_text(value, digits)


def _counted(count: int, noun: str) -> str:
    """Format a number of things: `1 thread`, `1,234 threads`."""
    return f"{_number(count)} {noun}" + "s" * (count != 1)


def as_json(value: object, most: int = MOST_SHOWN) -> str:
    """Format a value as indented JSON, cut at `most` characters: deeply nested values are mostly indentation."""
    pieces, size = [], 0
    for piece in _encoder.iterencode(value):  # the cut comes before the recursion gets too deep
        pieces.append(piece)
        size += len(piece)
        if size > most:
            return "".join(pieces)[:most] + "…"
    return "".join(pieces)


def _time(value: datetime | None) -> str:
    return "–" if value is None else value.strftime("%Y-%m-%d %H:%M:%S")


def duration(seconds: float) -> str:
    """Format a time span: `0.42 s`, `1 min 5 s`, `3 h 20 min`."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    minutes, whole_seconds = divmod(round(seconds), 60)
    hours, whole_minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {whole_minutes} min"
    return f"{minutes} min {whole_seconds} s" if minutes else f"{whole_seconds} s"


def ui() -> str:
    """Return the path of the pages, as browsers request it."""
    return f"{root_path.get()}/ui"


def static(name: str) -> str:
    """Return the URL of a file of `static/`. It contains the file's digest, so browsers may cache it indefinitely."""
    return f"{ui()}/static/{name}?v={_digest(name)}"


@cache
def _digest(name: str) -> str:
    return hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]


# Every template is escaped, whatever its extension, because all of them contain text of tenants.
_environment = Environment(
    loader=FileSystemLoader(_FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.globals |= {"static": static, "ui": ui}
_environment.filters |= {
    "number": _number,
    "counted": _counted,
    "money": money_text,
    "time": _time,
    "duration": duration,
    "as_json": as_json,
    "completion_scores": completion_scores,
    "details": details_of,
}


def rendered(template: str, **values: Any) -> bytes:
    """Render a page, or a part of one. Lone surrogates in a thread become question marks."""
    return _environment.get_template(template).render(values).encode("utf-8", "replace")


def page(template: str, status: int = 200, headers: dict[str, str] | None = None, **values: Any) -> HTMLResponse:
    """Render a template as a response."""
    return HTMLResponse(rendered(template, **values), status, headers)


async def long_page(
    request: Request, template: str, status: int = 200, headers: dict[str, str] | None = None, **values: Any
) -> HTMLResponse:
    """Render a template that may hold megabytes of tenants' text, in a thread: meanwhile others need the event loop."""
    services: Services = request.app.state.services
    return await services.read(request, partial(page, template, status, headers, **values))
