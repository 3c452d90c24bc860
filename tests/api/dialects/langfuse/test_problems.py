"""Tests that Langfuse retries temporary failures and nothing else."""

import errno

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.testclient import TestClient
from redis.exceptions import ConnectionError as RedisAway

from api.dialects.langfuse.problems import LangfuseRoute
from api.http.problems import ProblemError, invalid, too_large
from api.http.request_id import RequestId
from sandbox.errors import Busy, InfrastructureError, Stopped

AGAIN = {409, 429, 500, 502, 503, 504}
AGAIN_BY_NAME = {"TooManyRequestsException", "ServiceException", "ResourceConflictException"}
KNOWN = AGAIN_BY_NAME | {"AccessDeniedException", "InvalidParameterValueException"}
KNOWN |= {"ResourceNotFoundException", "RequestTooLargeException"}
PASSING = [
    Busy("all sandboxes are taken"),
    InfrastructureError("no sandbox could be had"),
    RedisAway("away"),
    OSError("no descriptors"),
    OSError(errno.ENOSPC, "no room"),
    ProblemError(504, "timeout", "it took too long"),
    ProblemError(408, "timeout", "the body came too slowly"),
    ProblemError(429, "too-many-requests", "wait"),
    ProblemError(503, "unavailable", "memory is short"),
]
FINAL = [
    invalid("no such thing"),
    too_large("over a limit"),
    ProblemError(401, "unauthorized", "no"),
    ProblemError(403, "forbidden", "no"),
    ProblemError(404, "not-found", "no"),
    ProblemError(415, "unsupported-media-type", "no"),
    Stopped("the client has gone"),
]


@pytest.fixture(scope="module")
def client() -> TestClient:
    app = FastAPI()
    raised = [*PASSING, *FINAL]
    router = APIRouter(route_class=LangfuseRoute)

    @router.get("/{number}/invocations")
    @router.get("/{number}/execute")
    def fail(number: int) -> None:
        raise raised[number]

    app.include_router(router)
    app.add_middleware(RequestId)
    return TestClient(app)


@pytest.mark.parametrize("number", range(len(PASSING) + len(FINAL)))
def test_by_name_and_by_status(client: TestClient, number: int) -> None:
    passes = number < len(PASSING)
    by_name = client.get(f"/{number}/invocations")
    name = by_name.headers["x-amzn-errortype"]
    assert name in KNOWN and (name in AGAIN_BY_NAME) == passes
    assert by_name.json()["Message"]
    by_status = client.get(f"/{number}/execute")
    assert (by_status.status_code in AGAIN) == passes
