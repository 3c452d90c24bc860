"""Refuses unknown query parameters, and repeated ones of which one counts: a client that sends one expects an effect
that it would not have.
"""

from collections import Counter
from typing import get_origin

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from api.http.problems import invalid

_SHOWN = 5
_CHARACTERS = 100


async def known_alone(request: Request) -> None:
    """Raises ProblemError if the query has a parameter that the route does not declare, or repeats one that is no
    list.
    """
    if not request.scope["query_string"]:
        return
    route: APIRoute = request.scope["route"]
    known, sent = _declared(route), Counter(name for name, _ in request.query_params.multi_items())
    unknown = sorted(set(sent) - known)
    if unknown:
        names = ", ".join(repr(name[:_CHARACTERS]) for name in unknown[:_SHOWN])
        takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
        raise invalid(f"this path has no query parameter {names}: {takes}")
    for name, times in sent.items():
        if times > 1 and name not in _lists(route.dependant):
            raise invalid(f"the query has {name!r} {times} times, and one value counts: send it once")


def _declared(route: APIRoute) -> set[str]:
    """The names that FastAPI reads, and those that `openapi_extra` adds for parameters that are parsed by hand."""
    described = (route.openapi_extra or {}).get("parameters", ())
    return _read(route.dependant) | {one["name"] for one in described if one["in"] == "query"}


def _read(dependant: Dependant) -> set[str]:
    own = {field.alias for field in dependant.query_params}
    return own.union(*map(_read, dependant.dependencies))


def _lists(dependant: Dependant) -> set[str]:
    """The names that may be repeated. Dependencies have none."""
    return {field.alias for field in dependant.query_params if get_origin(field.field_info.annotation) is list}
