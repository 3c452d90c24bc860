"""The spending of a project's asks."""

from datetime import datetime
from typing import Annotated

from fastapi import Query, Request, Response

from api.access.auth import InProject
from api.http.problems import invalid
from api.http.routers import project_router
from api.services import Served, Services
from gradebox.schemas import ProjectSpending

_FORMS = {7: "%Y-%m", 10: "%Y-%m-%d"}
_Period = Annotated[
    str,
    Query(
        json_schema_extra={"pattern": r"^([0-9]{4}-[0-9]{2}(-[0-9]{2})?)?$"},
        description="a day (2026-11-23) or month (2026-11) in UTC; empty: all time",
    ),
]

router = project_router("spending")


@router.get("/spending", response_model=ProjectSpending)
async def get(request: Request, services: Served, project: InProject, period: _Period = "") -> Response:
    """Get the spending of the project's asks, of all time or of a day or month; of all time, also by what was asked and
    by which grader.
    """
    if period and not _is_period(period):
        raise invalid(f"period is a day such as 2026-11-23 or a month such as 2026-11, and not {period!r:.40}")
    return await services.large_answers.make(request, _told, services, project, period)


def _told(services: Services, project: str, period: str) -> Response:
    """The spending, which may be that of ten thousand graders."""
    return Response(services.store.spending.told(project, period).model_dump_json(), media_type="application/json")


def _is_period(text: str) -> bool:
    """Whether the calendar has this day or month. Another has no spending, which would read as if asks were free."""
    try:
        datetime.strptime(text, _FORMS[len(text)])
    except (KeyError, ValueError):
        return False
    return text.isascii()  # strptime takes the digits of any script
