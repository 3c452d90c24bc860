"""What the asks of a project came to."""

from typing import Annotated

from fastapi import APIRouter, Query

from api.access.auth import InProject
from api.services import Served
from gradebox.schemas import ProjectSpending

_Period = Annotated[
    str, Query(pattern=r"^([0-9]{4}-[0-9]{2}(-[0-9]{2})?)?$", description="a day or month of UTC; empty: all time")
]

router = APIRouter(tags=["spending"])


@router.get("/spending")
def get(services: Served, project: InProject, period: _Period = "") -> ProjectSpending:
    """What the project's asks came to, in all or in a day or month; in all, by what was asked and who asked too."""
    return services.store.spending.told(project, period)
