"""`/reward/{project}/{grader}`, and the paths at the root that the client's blocking calls use."""

from typing import Any

import msgspec
from fastapi import APIRouter, Request, WebSocket
from fastapi import Response as HttpResponse

from api.access.callers import WaitingClient
from api.dialects.reward import scoring
from api.dialects.reward.access import Scored, ScoredByName, Shown, ShownByName, Target, enter
from api.dialects.reward.socket import Conversation
from api.dialects.reward.wire import METADATA_SCHEMA
from api.http import problems
from api.http.problems import HANDLED, ProblemError, problem_of
from api.intake import bodies
from api.services import Served

router = APIRouter(tags=["reward"], include_in_schema=False)


@router.post("/reward/{project}/{key}/score")
async def score(request: Request, services: Served, target: Scored) -> HttpResponse:
    """Score one completion and return its reward."""
    body = await bodies.read(request, services.limits_for(request).score_bytes)
    return _json(await services.grade(request, target.project, scoring.score_one, services, target, body))


@router.post("/reward/{project}/{key}/batch_score")
async def batch_score(request: Request, services: Served, target: Scored) -> HttpResponse:
    """Score several completions and return their rewards."""
    body = await bodies.read(request, services.limits_for(request).score_bytes, "send fewer at once")
    return _json(await services.grade(request, target.project, scoring.score_many, services, target, body))


@router.get("/reward/{project}/{key}/info")
async def info(request: Request, services: Served, target: Shown) -> HttpResponse:
    """Get the description of the grader."""
    return _json(msgspec.json.encode(await services.read(request, scoring.info, services, target)))


@router.get("/reward/{project}/{key}/metadata_schema")
async def metadata_schema(request: Request, services: Served, target: Shown) -> dict[str, Any]:
    """Get the metadata schema of an existing grader, which allows any object."""
    await services.read(request, scoring.info, services, target)
    return METADATA_SCHEMA


@router.post("/batch_score")
async def batch_score_by_name(request: Request, services: Served, target: ScoredByName) -> HttpResponse:
    """Like `/reward/.../batch_score`, for the grader in the user name."""
    return await batch_score(request, services, target)


@router.get("/info")
async def info_by_name(request: Request, services: Served, target: ShownByName) -> HttpResponse:
    """Like `/reward/.../info`, for the grader in the user name."""
    return await info(request, services, target)


@router.websocket("/reward/{project}/{key}/ws")
@router.websocket("/reward/{project}/{key}//ws")  # the path that the client derives from a URL with a trailing slash
async def ws(connection: WebSocket, services: Served, project: str, key: str) -> None:
    """Send rewards over a websocket as they are ready."""
    target = Target(project, key)
    try:
        await enter(connection, services, project, "score")
        await services.reading.run(WaitingClient(), project, services.store.graders.runnable, project, key)
    except HANDLED as error:
        await connection.send_denial_response(problems.answer(connection, problem_of(error)))
        return
    await Conversation(connection, services, target).serve()


@router.api_route("/reward/{project}/{key}", methods=["GET", "POST"])
async def base(target: Shown) -> None:
    """Refuse a request to the base URL itself, and name the paths below it."""
    path = f"/reward/{target.project}/{target.key}"
    detail = f"this is the base URL of a reward server: POST to {path}/score or {path}/batch_score, or GET {path}/info"
    raise ProblemError(404, "not-found", detail)


def _json(told: bytes) -> HttpResponse:
    return HttpResponse(told, media_type="application/json")
