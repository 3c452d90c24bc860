"""Pages for operators: the audit log, API keys, and the health of the service."""

import re
import subprocess
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from api.access.auth import require_operator
from api.http.problems import RETRY, ProblemError, invalid
from api.numbers.run_job import IsGone
from api.services import Services
from gradebox.service.server_programs import command, environment
from sandbox.doctor.layer import Layer
from ui.templates import long_page, page
from ui.visits import visit

_PAGE = 100
_DOCTOR_S = 60.0
_LINE = re.compile(r"[0-9]{1,15}-[0-9]{1,9}")


async def audit(request: Request) -> Response:
    """Show the changes in the project, newest first."""
    who = await visit(request, "manage")
    before = request.query_params.get("before") or None
    if before is not None and not _LINE.fullmatch(before):
        raise invalid(f"before={before!r:.40} is not the id of a line")
    newest = who.services.store.audit.newest
    lines = await who.services.read(request, newest, who.project, _PAGE, before)
    following = lines[-1].id if len(lines) >= _PAGE else None
    return await long_page(request, "audit.html", visit=who, here="audit", lines=lines, following=following)


async def service(request: Request) -> Response:
    """Show the health of the service and its API keys, to callers who manage all projects."""
    who = await visit(request, "manage")
    require_operator(who.key)
    found = await who.services.read(request, _service, who.services)
    return page("service.html", visit=who, here="service", **found)


async def doctor(request: Request) -> Response:
    """Test every layer of the sandbox, as `gradebox doctor` does, and show which are in force."""
    who = await visit(request, "manage")
    require_operator(who.key)
    found = await who.services.compute(request, who.project, _doctor)
    return page("doctor.html", visit=who, here="service", backends=found.backends, is_safe=found.safe)


class _Found(msgspec.Struct):
    safe: bool
    backends: dict[str, list[Layer]]


def _doctor(_: IsGone) -> _Found:
    """Runs in a separate process with the same settings, because it creates sandboxes beside those of this process."""
    doctor = [*command("sandbox.doctor"), "--json"]
    try:
        done = subprocess.run(doctor, capture_output=True, timeout=_DOCTOR_S, check=False, env=environment({}))
        return msgspec.json.decode(done.stdout, type=_Found)
    except (subprocess.TimeoutExpired, msgspec.DecodeError) as error:
        raise ProblemError(
            503, "unavailable", "the layers could not be tested: run `gradebox doctor`", RETRY
        ) from error


def _service(services: Services) -> dict[str, Any]:
    store = services.store
    return {
        "troubles": services.readiness.troubles(),
        "warnings": services.shortages.known,
        "processes": sorted(store.processes.there(), key=lambda one: (one.role, one.name)),
        "keys": store.api_keys.all(),
        "free": store.spool.files.free_bytes(),
    }
