"""Query parameters that a route does not know are refused: with them, a client means something that will not happen."""

from typing import Any

from fastapi import Request
from fastapi.dependencies.models import Dependant

from api.http.problems import invalid

_TOLD = 5
_CHARACTERS = 100


async def known_alone(request: Request) -> None:
    """Raises ProblemError where the query has a parameter that the route does not declare."""
    if not request.scope["query_string"]:
        return
    # That of the route as it was included: before, the project of the path is not known as such.
    known = _declared(request.scope["fastapi"]["effective_route_context"])
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        names = ", ".join(repr(name[:_CHARACTERS]) for name in unknown[:_TOLD])
        takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
        raise invalid(f"this path has no query parameter {names}: {takes}")


def _declared(route: Any) -> set[str]:
    """The names that FastAPI reads by itself, and those that the description adds for what is read by hand."""
    described = (route.openapi_extra or {}).get("parameters", ())
    return _read(route.dependant) | {one["name"] for one in described if one["in"] == "query"}


def _read(dependant: Dependant) -> set[str]:
    own = {field.alias for field in dependant.query_params}
    return own.union(*map(_read, dependant.dependencies))
