"""The spending of a project's asks."""

from typing import Annotated

from fastapi import APIRouter, Query

from api.access.auth import InProject
from api.services import Served
from gradebox.schemas import ProjectSpending

_Period = Annotated[
    str, Query(pattern=r"^([0-9]{4}-[0-9]{2}(-[0-9]{2})?)?$", description="a day or month in UTC; empty: all time")
]

router = APIRouter(tags=["spending"])


@router.get("/spending")
def get(services: Served, project: InProject, period: _Period = "") -> ProjectSpending:
    """Get the spending of the project's asks, of all time or of a day or month; of all time, also by what was asked and
    by which grader.
    """
    return services.store.spending.told(project, period)
