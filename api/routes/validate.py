"""Runs the five checks without storing anything."""

import msgspec
from fastapi import Request, Response

from api.access.auth import ScoresIn
from api.access.callers import Caller
from api.http import openapi
from api.http.problems import invalid, report_json
from api.http.routers import project_router
from api.intake.environment import choose
from api.intake.source_upload import Key, Options, Sent, prove, receive, run_limits
from api.services import Served, Services
from gradebox.schemas import Report
from sandbox.grading.source_bytes import SourceRefused

router = project_router("graders")


class ToValidate(Options, kw_only=True, forbid_unknown_fields=True):
    """A source that is not stored.

    If `grader` is given, the source is tried on that grader's stored threads and in the environment of its newest
    version, unless the request has others.
    """

    grader: Key | None = None


@router.post(
    "/validate", response_model=Report, openapi_extra=openapi.body(ToValidate, also=openapi.SOURCE_FILE | openapi.FORM)
)
async def validate(request: Request, services: Served, project: ScoresIn) -> Response:
    """Prove a source in a sandbox. The report lists what is wrong with it."""
    sent, options = await receive(request, ToValidate)
    report = await services.grade(request, project, _report, services, sent, options)
    return Response(report, media_type="application/json")  # FastAPI would validate the model again


def _report(caller: Caller, services: Services, sent: Sent, options: ToValidate) -> bytes:
    if options.grader is not None:
        graders = services.store.graders
        sent = sent.or_kept(graders.threads(caller.project, options.grader))
        used = graders.version(caller.project, options.grader).environment
        if options.environment is None and used is not None:
            options = msgspec.structs.replace(options, environment=used.label)
    return report_json(report_on(caller, services, sent, options))


def report_on(caller: Caller, services: Services, sent: Sent, options: Options) -> Report:
    """The report on a source, even if it never reaches a sandbox. Raises as `choose` does."""
    if sent.kind == "custom":
        raise invalid("a grader of kind `custom` has no source to check: its scores are recorded")
    environment = choose(services.store.environments, caller.project, options.environment or "")
    try:
        answering = services.answering(caller.project, options.ask)
        limits = run_limits(options, environment, caller.limits)
        return prove(caller, services, sent, limits, environment, answering)
    except SourceRefused as refused:
        return refused.report
