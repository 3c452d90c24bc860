"""What operators look at: who changed what, API keys, and whether the service is whole."""

import re
from typing import Any

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response

from api.access.auth import require_operator
from api.http.problems import invalid
from api.services import Services
from ui.templates import page
from ui.visits import visit

_PAGE = 100
_LINE = re.compile(r"[0-9]{1,15}-[0-9]{1,9}")


async def audit(request: Request) -> Response:
    """Who changed what in the project, the newest first."""
    who = await visit(request, "manage")
    before = request.query_params.get("before") or None
    if before is not None and not _LINE.fullmatch(before):
        raise invalid(f"before={before!r:.40} is the id of no line")
    lines = await run_sync(who.services.store.audit.newest, who.project, _PAGE, before)
    following = lines[-1].id if len(lines) >= _PAGE else None
    return page("audit.html", visit=who, here="audit", lines=lines, following=following)


async def service(request: Request) -> Response:
    """Whether the service is whole, and its API keys: for those who manage all projects."""
    who = await visit(request, "manage")
    require_operator(who.key)
    return page("service.html", visit=who, here="service", **await run_sync(_service, who.services))


def _service(services: Services) -> dict[str, Any]:
    store = services.store
    return {
        "troubles": services.readiness.troubles(),
        "warnings": services.missing_workers.known,
        "processes": sorted(store.processes.there(), key=lambda one: (one.role, one.name)),
        "keys": store.api_keys.all(),
        "free": store.spool.free_bytes(),
    }
