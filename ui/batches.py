"""The list of batches."""

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response

from ui.templates import page
from ui.visits import visit

_PAGE = 50


async def listed(request: Request) -> Response:
    """The newest batches of the project; of a grader, where one is named."""
    who = await visit(request)
    before, grader = request.query_params.get("before"), request.query_params.get("grader", "")
    newest = who.services.store.batches.newest
    found = await run_sync(newest, who.project, _PAGE, before, grader)
    following = found[-1].id if len(found) == _PAGE else None
    return page("batches.html", visit=who, here="batches", batches=found, following=following, grader=grader)
