"""The table of a batch's outcomes, and its errors in groups."""

from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import Query, Request, Response

from api.access.auth import InProject
from api.http import openapi
from api.http.problems import invalid
from api.http.routers import project_router
from api.routes.numbers import Named, side
from api.services import Served, Services
from api.table.page import PageOf, page
from api.table.table_jobs import GraderTable
from gradebox.combination import COMBINED
from gradebox.schemas.outcome_table import MOST_ROWS, ErrorGroups, KindFilter, Sort, TablePage
from storage.errors import Conflict
from storage.outcomes.outcome_selection import OutcomeFilter

MOST_PAGES = 1_000_000
TEXT_LENGTH = 200
BIN = "number of a bin of the summary's histogram, from 0"

Bound = Annotated[float | None, Query(allow_inf_nan=False, description="inclusive bound of the score")]

router = project_router("batches", "/batches")


@router.get("/{batch_id}/table", response_class=Response, responses=openapi.answer(TablePage))
async def read_table(
    request: Request,
    services: Served,
    project: InProject,
    batch_id: str,
    grader: Named = None,
    kind: Annotated[KindFilter | None, Query(description="only outcomes with a score, or of one kind without")] = None,
    low: Bound = None,
    high: Bound = None,
    bin: Annotated[int | None, Query(ge=0, le=9, description=BIN)] = None,  # noqa: A002  # as the query has it
    text: Annotated[
        str | None,
        Query(min_length=1, max_length=TEXT_LENGTH, description="text to find in a reason, a message or a completion"),
    ] = None,
    sort: Annotated[Sort, Query(description="outcomes without a score come last, also for -score")] = "index",
    page_number: Annotated[int, Query(alias="page", ge=1, le=MOST_PAGES)] = 1,
    limit: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 50,
) -> Response:
    """Get a page of the outcomes of one grader, with the number of matches. The first request for an ended batch waits
    until its index is made. Before the end of a batch, its outcomes so far can be read only in order of their index,
    and without filters.
    """
    of = PageOf(OutcomeFilter(kind, low, high, bin), sort, page_number, limit)
    table = await services.read(request, _table, services, project, batch_id, grader)
    if table.is_over:
        await _index(request, services, project, table)
    elif of.needs_index or text is not None:
        raise _not_over(table, "its outcomes so far are sorted by index alone, without filters")
    found = None if text is None else await services.compute(request, project, table.search, text)
    answer = await services.large_answers.make(request, page, table, of, found)
    return Response(answer, media_type="application/json")


@router.get("/{batch_id}/errors", response_class=Response, responses=openapi.answer(ErrorGroups))
async def read_errors(
    request: Request, services: Served, project: InProject, batch_id: str, grader: Named = None
) -> Response:
    """Get the errors of one grader by kind, and those of each kind grouped by message."""
    table = await services.read(request, _table, services, project, batch_id, grader)
    if not table.is_over:
        raise _not_over(table, "its errors are grouped then")
    await _index(request, services, project, table)
    answer = await services.large_answers.make(request, table.index.column, "errors")
    return Response(answer, media_type="application/json")


def _table(services: Services, project: str, batch_id: str, grader: str | None) -> GraderTable:
    batch = services.store.batches.get(project, batch_id)
    label = side(batch, grader).grader
    if label != COMBINED and label not in map(str, batch.graders):
        raise invalid(f"scores of {label} were recorded from outside and have no table: read them among the outcomes")
    return GraderTable(services.store, batch, label)


async def _index(request: Request, services: Services, project: str, table: GraderTable) -> None:
    if not await run_sync(lambda: table.index.is_there):
        await services.compute(request, project, table.make)


def _not_over(table: GraderTable, until: str) -> Conflict:
    return Conflict(f"batch {table.batch} is not over, or is scored again: ask once it is over; {until}")
