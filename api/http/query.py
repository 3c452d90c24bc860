"""Refuses unknown query parameters: a client that sends one expects an effect that it would not have."""

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from api.http.problems import invalid

_SHOWN = 5
_CHARACTERS = 100


async def known_alone(request: Request) -> None:
    """Raises ProblemError if the query has a parameter that the route does not declare."""
    if not request.scope["query_string"]:
        return
    known = _declared(request.scope["route"])
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        names = ", ".join(repr(name[:_CHARACTERS]) for name in unknown[:_SHOWN])
        takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
        raise invalid(f"this path has no query parameter {names}: {takes}")


def _declared(route: APIRoute) -> set[str]:
    """The names that FastAPI reads, and those that `openapi_extra` adds for parameters that are parsed by hand."""
    described = (route.openapi_extra or {}).get("parameters", ())
    return _read(route.dependant) | {one["name"] for one in described if one["in"] == "query"}


def _read(dependant: Dependant) -> set[str]:
    own = {field.alias for field in dependant.query_params}
    return own.union(*map(_read, dependant.dependencies))
