"""Parsing of the query in a page's URL."""

from collections.abc import Mapping
from typing import get_args
from urllib.parse import urlencode

from starlette.requests import Request

from api.http.problems import invalid


def number(request: Request, name: str, least: int, most: int, otherwise: int | None = None) -> int | None:
    """Return an integer of the query; `otherwise` if it is missing. Raises ProblemError."""
    text = request.query_params.get(name, "")
    if not text:
        return otherwise
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
        raise invalid(f"{name}={text!r:.40} is not a number from {least} to {most}")
    return int(text)


def decimal(request: Request, name: str) -> float | None:
    """Return a finite number of the query; None if it is missing. Raises ProblemError."""
    text = request.query_params.get(name, "")
    try:
        found = float(text) if text else None
    except ValueError:
        found = float("nan")
    if found is not None and not abs(found) < float("inf"):
        raise invalid(f"{name}={text!r:.40} is not a number")
    return found


def one_of(request: Request, name: str, kind: object) -> str | None:
    """Return a value of a literal type, or of a union of them; None if it is missing. Raises ProblemError."""
    text = request.query_params.get(name, "")
    names = _names(kind)
    if text and text not in names:
        raise invalid(f"{name}={text!r:.40} is not one of {', '.join(names)}")
    return text or None


def _names(kind: object) -> list[str]:
    if isinstance(kind, str):
        return [kind]
    return [name for part in get_args(kind) for name in _names(part)]


def with_changes(request: Request, changes: Mapping[str, object]) -> str:
    """Return the page's query with changed values; values that are None or empty are left out."""
    kept = {**request.query_params, **changes}
    reported = {name: str(value) for name, value in kept.items() if value not in (None, "")}
    return urlencode(reported)
