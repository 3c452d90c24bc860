"""Scores some threads while the caller waits."""

import time

import msgspec
from fastapi import APIRouter, Request, Response

from api import bodies, openapi
from api.auth import ScoresIn
from api.problems import ProblemError
from api.proofs import BODY_BYTES, THREADS, VersionNumber
from api.services import Served, Services
from gradebox.outcome import Outcome
from gradebox.schemas import ScoreAnswer
from sandbox.grader_source import GraderSource
from storage.measures import COMPLETED
from storage.summary import summarise
from storage.tally import Tally, tally

TIME_S = 600.0
_AT_ONCE = 64  # threads between two looks at the clock

router = APIRouter(tags=["graders"])


class ToScore(msgspec.Struct, forbid_unknown_fields=True):
    """Threads for one grader; the newest version where none is named."""

    threads: msgspec.Raw
    version: VersionNumber | None = None


class _Answer(msgspec.Struct):
    outcomes: list[Outcome]
    summary: msgspec.Raw


@router.post("/graders/{key}/score", response_model=ScoreAnswer, openapi_extra=openapi.body(ToScore))
async def score(request: Request, services: Served, project: ScoresIn, key: str) -> Response:
    """An outcome for each thread, in order."""
    body = await bodies.read(request, BODY_BYTES, "send a batch instead")
    answer = await services.grade(_score, services, project, key, body)
    return Response(answer, media_type="application/json")


def _score(services: Services, project: str, key: str, body: bytes) -> bytes:
    """The answer as JSON: in the event loop, a long one would hold others."""
    wanted = bodies.parse(body, ToScore)
    lines = bodies.lines(wanted.threads, THREADS, services.line_bytes)
    label, outcomes = score_lines(services, project, key, wanted.version, lines)
    summary = summarise(label, 1.0, tally(outcomes))
    return msgspec.json.encode(_Answer(outcomes, msgspec.Raw(summary.model_dump_json().encode())))


def score_lines(
    services: Services, project: str, key: str, number: int | None, lines: list[bytes]
) -> tuple[str, list[Outcome]]:
    """What outcomes call the grader, and an outcome for each line, in order.

    Raises:
        NotFound, NotRunnable: from storage.
        InfrastructureError: no sandbox could be had.
        ProblemError: it took too long.
    """
    version = services.store.graders.runnable(project, key, number)
    source = GraderSource(version.source, version.isolation, version.timeout_s, version.memory_mb)
    label = f"{key}@{version.number}"
    outcomes = _outcomes(services, source, lines, label)
    _count(services, f"{COMPLETED}{project}:{key}", tally(outcomes))
    return label, outcomes


def _count(services: Services, name: str, counted: Tally) -> None:
    services.counts.add(f"{name}:scored", counted.scored)
    services.counts.add(f"{name}:run_ms", counted.run_ms)
    for kind, errors in counted.errors.items():
        services.counts.add(f"{name}:error:{kind}", errors)


def _outcomes(services: Services, source: GraderSource, lines: list[bytes], label: str) -> list[Outcome]:
    ends = time.monotonic() + TIME_S
    outcomes: list[Outcome] = []
    with services.pool.grading(source) as grading:
        for first in range(0, len(lines), _AT_ONCE):
            if time.monotonic() > ends:
                raise ProblemError(
                    504, "timeout", f"{first} of {len(lines)} threads took {TIME_S:g} s: send them as a batch"
                )
            part = lines[first : first + _AT_ONCE]
            outcomes += grading.score(b"\n".join(part), first, label, len(part))
    return outcomes
