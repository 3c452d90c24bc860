"""Routers of the API's own paths, which refuse unknown query parameters. Clients of dialects and health checks may send
more, so these have other routers.
"""

from fastapi import APIRouter, Depends, FastAPI

from api.http.query import known_alone


def service_router(path: str, tag: str) -> APIRouter:
    """A router of paths that belong to no project."""
    return APIRouter(prefix=path, tags=[tag], dependencies=[Depends(known_alone)])


def project_router(tag: str, path: str = "") -> APIRouter:
    """A router of paths below that of a project."""
    return service_router(f"/v1/projects/{{project}}{path}", tag)


def add_routes(app: FastAPI, router: APIRouter) -> None:
    """Adds a router's routes to an application.

    FastAPI keeps included routers nested, and would look for each request's route in one router after the other.
    """
    app.router.routes.extend(router.routes)
