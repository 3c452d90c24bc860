"""`/weave/v1/{project}/{grader}`."""

import msgspec
from fastapi import APIRouter, Request, Response

from api.access.auth import ScoresIn
from api.access.callers import Caller
from api.dialects.score_one import score_one
from api.dialects.time_limit import in_time
from api.dialects.weave import thread_of_call, wire
from api.http.problems import ProblemError
from api.intake import bodies
from api.intake.batch_upload import named
from api.services import Served, Services
from gradebox.schemas import WeaveMapping

BODY_BYTES = bodies.MIB * 5 // 4  # Weave sends at most 1 MiB
ANSWER_S = 28.0
"""Less than the 30 s that Weave waits."""
LAST_S = 1.0  # the part of ANSWER_S reserved for what follows the sandbox

router = APIRouter(prefix="/weave/v1", include_in_schema=False)


@router.post("/{project}/{key}")
async def score(request: Request, services: Served, project: ScoresIn, key: str) -> Response:
    """Score one call. A missing score is an error. Weave decides by its status whether to retry."""
    async with in_time(ANSWER_S, LAST_S) as ends:
        body = await bodies.read(request, BODY_BYTES)
        answer = await services.grade(request, project, _score, services, key, body, ends)
    return Response(answer, media_type="application/json")


def _score(caller: Caller, services: Services, key: str, body: bytes, ends: float) -> bytes:
    sent = bodies.parse(body, wire.ScoringRequest)
    grader, graders = named(key), services.store.graders
    mapping = graders.get(caller.project, grader.key).weave or WeaveMapping()
    graders.version(caller.project, grader.key, grader.version)  # a missing version is reported before any other error
    line = thread_of_call.line_of(sent, mapping, services.line_bytes)
    outcome = score_one(caller.until(ends), services, grader, line)
    assert outcome.score is not None
    if not 0 <= outcome.score <= 1:
        raise ProblemError(
            422,
            "not-scored",
            f"the score is {outcome.score}, and Weave takes scores from 0 to 1: scale it in the grader",
        )
    return msgspec.json.encode(
        wire.ScoringAnswer(sent.schema_version, wire.ScoringResult(outcome.score, outcome.reason))
    )
