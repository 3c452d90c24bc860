"""The lists of models that graders ask, with their costs, and of environments that they run in."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.routes.budget import standing_of
from storage.store import Store
from ui.templates import long_page
from ui.visits import visit


async def listed(request: Request) -> Response:
    """List the models and endpoints of the project."""
    who = await visit(request)
    found = await who.services.read(request, _listed, who.services.store, who.project)
    return await long_page(request, "models.html", visit=who, here="models", **found)


async def environments(request: Request) -> Response:
    """List the environments of the project, with their newest builds."""
    who = await visit(request)
    found = await who.services.read(request, who.services.store.environments.all, who.project)
    return await long_page(request, "environments.html", visit=who, here="environments", environments=found)


def _listed(store: Store, project: str) -> dict[str, Any]:
    spending = store.spending.told(project)
    return {
        "models": store.models.all(project),
        "endpoints": store.endpoints.all(project),
        "spent": spending.by,
        "total": spending.total,
        "budget": standing_of(store, project),
    }
