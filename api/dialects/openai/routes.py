"""`client.fine_tuning.alpha.graders` of the openai client, with the base URL `/openai/v1`."""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Header, Request, Response

from api.access.auth import identify, permit, secret_of
from api.access.callers import Caller, watched
from api.dialects.openai import model_graders, python_graders
from api.dialects.openai.graders import JSON_BYTES, Grader, LabelModel, Multi, Python, ScoreModel, read
from api.dialects.openai.problems import OpenAIProblem, OpenAIRoute
from api.dialects.openai.run import run as run_grader
from api.dialects.openai.sample import Sample
from api.http.problems import ProblemError
from api.intake import bodies
from api.services import Served, Services
from runtime import slow_numbers
from sandbox.pool.fair_shares import Shares

# Not in our OpenAPI document, since OpenAI documents these routes.
router = APIRouter(prefix="/openai/v1", route_class=OpenAIRoute, include_in_schema=False)
_AT_ONCE = Shares(8, "calls of this dialect")  # of the places for grading, because a run takes longer than most calls
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


async def _scores(request: Request, services: Served, openai_project: Annotated[str, Header()] = "default") -> str:
    """Check the API key. The client sends the header for its argument `project`."""
    permit(await identify(request, services, secret_of(request), openai_project), openai_project, "score")
    return openai_project


_Project = Annotated[str, Depends(_scores)]


class GraderToValidate(msgspec.Struct):
    """A grader to be validated."""

    grader: msgspec.Raw


class GraderToRun(GraderToValidate, forbid_unknown_fields=True):
    """A grader, the sample to be graded, and the sample's row of the dataset. Older clients send a reference answer."""

    model_sample: msgspec.Raw
    item: msgspec.Raw = msgspec.Raw(b"null")
    reference_answer: msgspec.Raw = msgspec.Raw(b"null")


@router.post("/fine_tuning/alpha/graders/validate")
async def validate(request: Request, services: Served, project: _Project) -> Response:
    """Validate a grader and return it as it was sent. If it is invalid, this is an error."""
    return await _graded(request, services, project, _validate)


@router.post("/fine_tuning/alpha/graders/run")
async def run(request: Request, services: Served, project: _Project) -> Response:
    """Run a grader and return the reward of one sample."""
    return await _graded(request, services, project, _run)


@router.api_route("/{path:path}", methods=_METHODS, dependencies=[Depends(_scores)])
async def nothing(path: str) -> Response:
    """Reject all other requests of the client."""
    raise ProblemError(
        404,
        "not-found",
        f"there is no {path[:200]!r} here: gradebox supports only fine_tuning/alpha/graders/validate and run of "
        f"OpenAI's API",
    )


async def _graded(
    request: Request, services: Services, project: str, work: Callable[[Caller, Services, bytes], bytes]
) -> Response:
    limits = services.limits_for(request)
    body = await bodies.read_as_json(request, limits.score_bytes)
    async with watched(request) as client, client.place(_AT_ONCE, project):
        answer = await services.grade_for(client, project, limits, work, services, body)
    return Response(answer, media_type="application/json")


def _validate(caller: Caller, services: Services, body: bytes) -> bytes:
    sent = bodies.parse(body, GraderToValidate)
    value, grader = _grader(sent)
    parts = grader.graders.items() if isinstance(grader, Multi) else [("", grader)]
    for name, part in parts:
        param = f"grader.graders.{name}" if name else "grader"
        if isinstance(part, Python):
            python_graders.check(services, caller, part.source, f"{param}.source")
        elif isinstance(part, ScoreModel | LabelModel):
            model_graders.check(services, caller, part, param)
    return msgspec.json.encode({"grader": {"name": "", **value}})


def _run(caller: Caller, services: Services, body: bytes) -> bytes:
    sent = bodies.parse(body, GraderToRun)
    if bytes(sent.reference_answer) != b"null":
        raise OpenAIProblem(
            "reference_answer is not read: send item={'reference_answer': …}, for {{ item.reference_answer }}",
            "reference_answer",
            "invalid-request",
        )
    _, grader = _grader(sent)
    item = bytes(sent.item)
    item = b"{}" if item == b"null" else item
    output = bytes(sent.model_sample)
    if output[:1] != b'"' or item[:1] != b"{":
        param, kind = ("model_sample", "a string") if output[:1] != b'"' else ("item", "an object")
        raise OpenAIProblem(f"{param} must be {kind}", param, "invalid-request")
    sample = Sample(output, item, services.line_bytes)
    return msgspec.json.encode(run_grader(services, caller, grader, sample))


def _grader(sent: GraderToValidate) -> tuple[dict[str, Any], Grader]:
    raw = bytes(sent.grader)
    if len(raw) > JSON_BYTES:
        raise OpenAIProblem(
            f"the grader is longer than {JSON_BYTES} bytes: move data out of it, into the item", "grader"
        )
    if slow_numbers.are_many(raw):
        raise OpenAIProblem(f"the grader is not read: {slow_numbers.REASON}", "grader")
    try:
        value = msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise OpenAIProblem(f"the grader is invalid: {error}", "grader") from error
    return value, read(value)
