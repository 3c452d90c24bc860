"""Tests with a service in this process, whose settings and time limits they change."""

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from pydantic import SecretStr

from api.access.failed_keys import FailedKeys
from api.access.strangers import Strangers
from api.dialects.langfuse import evaluation as evaluation_room
from api.dialects.langfuse import route as langfuse
from api.dialects.langfuse.evaluation import ErrorAnswer, EvaluationError
from api.dialects.weave import route as weave
from models.settings import ModelSettings
from tests.api.conftest import Service, client, problem, running, secret, service
from tests.api.dialects.langfuse.conftest import ONE, evaluation, lambda_client
from tests.api.dialects.langfuse.test_external import ANSWER, signature
from tests.waiting import eventually

__all__ = ["client", "running", "secret", "service"]

SECRET = "a-secret-of-some-length"
EXECUTE = "/langfuse/v1/execute"
SLEEPS = "import time\nasync def grade(thread):\n    time.sleep(float(thread.completion()))\n    return 1.0\n"


@pytest.fixture(scope="session")
def redis_url(redis_url: str) -> str:
    """A database for these tests."""
    return redis_url.replace("?db=2", "") + "?db=4"


@pytest.fixture
def executor(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    """A client that acts as Langfuse, with a shorter time limit."""
    monkeypatch.setattr(langfuse, "ANSWER_S", 2.5)
    monkeypatch.setattr(service.services.settings, "langfuse_secret", SecretStr(SECRET))
    headers = {"Authorization": f"Bearer {SECRET}"}
    with httpx.Client(base_url=service.url, headers=headers, timeout=30) as executor:
        yield executor


def test_a_source_that_does_not_load_is_a_timeout(executor: httpx.Client) -> None:
    began = time.monotonic()
    answer = executor.post(EXECUTE, json=evaluation("while True: pass")).json()
    assert answer["error"]["code"] == "TIMEOUT"
    assert time.monotonic() - began < 2.5


def test_what_fails_in_two_ways_is_not_to_blame(executor: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the kernel had killed the first sandbox: `_load` returns the messages in turn."""

    def said(*messages: str) -> httpx.Response:
        refusals = iter([ErrorAnswer(EvaluationError("INVALID_SOURCE", message)) for message in messages])
        monkeypatch.setattr(evaluation_room, "_load", lambda *_: next(refusals))
        return executor.post(EXECUTE, json=evaluation())

    problem(said("ended by SIGKILL", "another"), 503, "unavailable")
    assert said("the same", "the same").json()["error"] == {"code": "INVALID_SOURCE", "message": "the same"}


def test_where_there_are_too_many_each_has_an_answer_in_time(executor: httpx.Client) -> None:
    sleeps = evaluation("import time\ndef evaluate(ctx):\n    time.sleep(4)")

    def ask(_: int) -> tuple[httpx.Response, float]:
        began = time.monotonic()
        return executor.post(EXECUTE, json=sleeps), time.monotonic() - began

    with ThreadPoolExecutor(24) as threads:
        for answer, seconds in threads.map(ask, range(24)):
            assert answer.status_code in (429, 503) or answer.json()["error"]["code"] == "TIMEOUT"
            assert seconds < 3
    began = time.monotonic()
    while (answer := executor.post(EXECUTE, json=evaluation(ONE))).status_code != 200:
        assert answer.status_code in (429, 503) and time.monotonic() - began < 10
    assert "scores" in answer.json()


def test_weave_hears_of_a_slow_grader(service: Service, client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weave, "ANSWER_S", 1.0)
    threads = [{"completion": "0"}]
    created = client.post(
        "/v1/projects/default/graders", json={"key": "sleeps", "source": SLEEPS, "timeout_s": 60, "threads": threads}
    )
    assert created.status_code == 201, created.text
    call = {"inputs": {}, "output": "20"}
    began = time.monotonic()
    response = client.post("/weave/v1/default/sleeps", json={"schema_version": 1, "original_call": call})
    problem(response, 504, "timeout")
    assert time.monotonic() - began < 3


def test_requests_of_langfuse_are_not_paced_as_those_of_strangers(
    service: Service, executor: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.services, "strangers", Strangers(100))

    def is_good(path: str = EXECUTE, address: str = "127.0.0.1") -> bool:
        return service.services.strangers.is_good_address(path, address)

    functions = lambda_client(f"{service.url}/langfuse/v1", SECRET)
    executor.post(EXECUTE, json=evaluation(), headers={"Authorization": "Bearer another"})
    assert not is_good()
    executor.post(EXECUTE, json=evaluation())
    assert is_good() and not is_good("/v1/projects") and not is_good(address="127.0.0.2")
    monkeypatch.setattr(service.services, "strangers", Strangers(100))
    assert not is_good()
    functions.invoke(FunctionName="f", Payload=json.dumps(evaluation()))
    assert is_good()


def test_a_wrong_secret_stays_final(service: Service, executor: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.services, "failed_keys", FailedKeys(3))
    wrong, path = {"Authorization": "Bearer another"}, "/langfuse/v1/2015-03-31/functions/f/invocations"
    invoked = {executor.post(path, json={}, headers=wrong).headers["x-amzn-errortype"] for _ in range(6)}
    assert invoked == {"AccessDeniedException"}
    assert {executor.post(EXECUTE, json={}, headers=wrong).status_code for _ in range(6)} == {403}


def test_without_a_secret_nothing_is_run(service: Service, client: httpx.Client) -> None:
    detail = problem(client.post(EXECUTE, json=evaluation()), 403, "forbidden")
    assert "GRADEBOX_LANGFUSE_SECRET" in detail
    invoked = client.post("/langfuse/v1/2015-03-31/functions/f/invocations", json=evaluation())
    assert (invoked.status_code, invoked.headers["x-amzn-errortype"]) == (403, "AccessDeniedException")


def test_signed_requests_where_the_operator_wants_them(
    service: Service, executor: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.services.settings, "langfuse_external", "signature")
    url, body = f"{service.url}{EXECUTE}", json.dumps(evaluation(ONE)).encode()
    good = {"x-langfuse-signature": signature(body, time.time(), SECRET)}
    assert httpx.post(url, content=body, headers=good).json() == ANSWER
    problem(executor.post(EXECUTE, content=body), 403, "forbidden")
    problem(httpx.post(url, content=body + b" ", headers=good), 403, "forbidden")


def test_an_endpoint_is_asked_what_it_is_if_the_operator_allows_it(
    service: Service, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from adaptive_sdk import Adaptive
    from adaptive_sdk.external import EmptyMetadata, Response, RewardServer, ServerInfo, ValidatedRequest

    class Lengths(RewardServer[EmptyMetadata]):  # type: ignore[misc]  # the SDK has no types
        async def score(self, request: ValidatedRequest[EmptyMetadata]) -> Response:
            return Response(reward=float(len(request.turns[-1].content)), metadata={})

        async def info(self) -> ServerInfo:
            return ServerInfo(version="7", name="lengths", description="how long it is")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = Lengths(port, EmptyMetadata, blocking=False)
    graders, url = Adaptive(service.url, secret).graders, f"http://127.0.0.1:{port}"
    assert "GRADEBOX_MODEL_HOSTS" in graders.test_external_endpoint(url).error
    monkeypatch.setattr(service.services, "models", ModelSettings(model_hosts=(f"127.0.0.1:{port}",)))
    eventually(lambda: not hasattr(graders.test_external_endpoint(url), "error"))  # the server starts in a thread
    told = graders.test_external_endpoint(url)
    assert (told.name, told.version, told.description) == ("lengths", "7", "how long it is")
    assert "begin with http://" in graders.test_external_endpoint("ftp://x").error
    server.server.stop()
