"""Scores some threads while the caller waits."""

from http import HTTPStatus

import msgspec
from fastapi import Request, Response

from api.access.auth import ScoresIn
from api.access.callers import Caller
from api.http import openapi
from api.http.problems import ProblemError, too_large
from api.http.routers import project_router
from api.intake import bodies
from api.intake.source_upload import VersionNumber
from api.services import Served, Services
from gradebox.outcome import Outcome
from gradebox.schemas import ScoreAnswer, Version
from models.scoring.scoring import scoring
from sandbox.grader_source import GraderSource
from sandbox.grading.grading import Grading
from sandbox.grading.thread_ids import read_group_size
from sandbox.pool.parallel_call import ParallelCall
from storage.statistics.outcome_tally import tally
from storage.statistics.summary import NOT_MADE, summary_of

router = project_router("graders")


class ToScore(msgspec.Struct, forbid_unknown_fields=True):
    """Threads for one grader; by default, for its newest version."""

    threads: msgspec.Raw
    version: VersionNumber | None = None


class _Answer(msgspec.Struct, omit_defaults=True):
    outcomes: list[Outcome]
    summary: msgspec.Raw
    summary_error: str | None = None


@router.post("/graders/{key}/score", response_model=ScoreAnswer, openapi_extra=openapi.body(ToScore))
async def score(request: Request, services: Served, project: ScoresIn, key: str) -> Response:
    """Score threads and return an outcome for each, in order."""
    limits = services.limits_for(request)
    try:
        body = await bodies.read(request, limits.score_bytes, "send a batch instead")
        answer = await services.grade(request, project, _score, services, key, body)
    except ProblemError as error:
        if error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:  # the client sends the threads in smaller requests
            error.members |= {"most_threads": limits.score_threads, "most_bytes": limits.score_bytes}
        raise
    return Response(answer, media_type="application/json")


def _score(caller: Caller, services: Services, key: str, body: bytes) -> bytes:
    """The response as JSON, encoded in the thread: a long one would block the event loop."""
    wanted = bodies.parse(body, ToScore)
    most = caller.limits.score_threads
    lines = bodies.lines(wanted.threads, most, services.line_bytes, "send a batch instead")
    version, outcomes = score_lines(caller, services, key, wanted.version, lines)
    summary = summary_of(f"{key}@{version.number}", 1.0, tally(outcomes), python=version.python)
    if summary is None:
        return msgspec.json.encode(_Answer(outcomes, msgspec.Raw(b"null"), NOT_MADE))
    return msgspec.json.encode(_Answer(outcomes, msgspec.Raw(summary.model_dump_json().encode())))


def _check_groups(lines: list[bytes], most: int) -> None:
    """Raises ProblemError if the groups have more than `most` threads together. A single group is never too large."""
    threads = sum(max(1, read_group_size(line)) for line in lines)
    if threads > most and len(lines) > 1:
        raise too_large(f"the groups have more than {most} threads together, the most of one request: send a batch")


def score_lines(
    caller: Caller, services: Services, key: str, number: int | None, lines: list[bytes]
) -> tuple[Version, list[Outcome]]:
    """Scores the lines. Returns the version that scored them, and an outcome for each line, in order.

    Raises as `score_in_time` does, and ProblemError if some lines were not scored in time.
    """
    version, outcomes = score_in_time(caller, services, key, number, lines)
    if len(outcomes) < len(lines):
        raise caller.why(f"{len(outcomes)} of {len(lines)} threads were scored")
    return version, outcomes


def score_in_time(
    caller: Caller, services: Services, key: str, number: int | None, lines: list[bytes]
) -> tuple[Version, list[Outcome]]:
    """Scores the first of the lines: as many as the caller's time allows. Returns as `score_lines` does.

    Raises:
        NotFound, NotRunnable: from storage.
        InfrastructureError: no sandbox is available.
        ProblemError: no line was scored in time.
        Stopped: the client disconnected.
    """
    version = services.store.graders.runnable(caller.project, key, number)
    label = f"{key}@{version.number}"
    if version.groups:
        _check_groups(lines, caller.limits.score_threads)
    with scoring(services.store, services.pool, services.asker, caller.project, key, version) as scorer:
        if isinstance(scorer, Grading):
            source = GraderSource.of_version(caller.project, version)
            call = ParallelCall(services.pool, source, lines, label, caller.should_stop)
            outcomes = call.score(scorer)
        else:  # what it asks is asked at once
            outcomes = scorer.score(b"\n".join(lines), 0, label, len(lines), stop=caller.should_stop)
    counted = tally(outcomes)
    services.metrics.completions.add(
        caller.project, key, counted.scored, counted.not_applicable, counted.errors, counted.run_ms
    )
    if not outcomes:
        raise caller.why(f"0 of {len(lines)} threads were scored")
    return version, outcomes
