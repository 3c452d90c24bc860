"""The budget of a project for asking models."""

from anyio.to_thread import run_sync
from fastapi import Request

from api.access.auth import InProject, ManagesIn
from api.http import openapi
from api.http.problems import invalid
from api.http.routers import project_router
from api.intake import bodies
from api.intake.batch_upload import BudgetOfBatch
from api.services import Served
from gradebox.schemas import BudgetPeriod, ProjectBudget
from storage.models.spending import Budget
from storage.store import Store

router = project_router("budget", "/budget")


class NewBudget(BudgetOfBatch, kw_only=True, forbid_unknown_fields=True):
    """The limit of spending in each period: US dollars, tokens or both. What is not given is not limited."""

    period: BudgetPeriod = "month"


@router.get("")
def get(services: Served, project: InProject) -> ProjectBudget:
    """Get the budget and the spending in its current period. Without a budget, the spending of all time."""
    return standing_of(services.store, project)


@router.put("", openapi_extra=openapi.body(NewBudget))
async def put(request: Request, services: Served, project: ManagesIn) -> ProjectBudget:
    """Set the budget, replacing an existing one."""
    new = await bodies.read_json(request, NewBudget)
    if new.usd is None and new.tokens is None:
        raise invalid("a budget names `usd`, `tokens` or both; DELETE removes the budget")
    budget = Budget(new.usd, new.tokens, new.period)
    await run_sync(services.store.spending.set_budget, project, budget)
    return await run_sync(standing_of, services.store, project)


def standing_of(store: Store, project: str) -> ProjectBudget:
    """The budget of a project, what is spent of it, and the models that it does not limit."""
    standing = store.spending.standing_of(project)
    if standing.usd is None:
        return standing
    return standing.model_copy(update={"not_limited": store.models.unpriced(project)})


@router.delete("", status_code=204)
def delete(services: Served, project: ManagesIn) -> None:
    """Remove the budget. Spending is still counted."""
    services.store.spending.set_budget(project, None)
