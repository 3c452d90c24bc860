"""Tests that grading calls end when the client leaves or time is over, and leave room for other projects."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from redis import Redis
from websockets.sync.client import connect

from api.access import callers
from api.dialects.reward.socket import SCORERS, TOGETHER
from api.services import Services
from api.settings import ApiSettings
from sandbox.pool.pool import Pool, open_pool
from sandbox.settings import SandboxSettings
from storage.settings import StorageSettings
from storage.spool.spool import Spool
from storage.store import Store
from tests.api.conftest import GOOD, PROJECT, Service, problem, serving
from tests.api.http.test_websocket import request
from tests.waiting import eventually

pytestmark = pytest.mark.sandbox

_SLEEPS = """
import time
async def grade(thread):
    if thread.completion() != "4": time.sleep(20)
    return 1.0
"""
_SLOW = '{"threads": [{"completion": "slow"}, {"completion": "slow"}]}'


@pytest.fixture(scope="module")
def sandboxes() -> Iterator[Pool]:
    """A pool of only four sandboxes."""
    with open_pool(SandboxSettings(most_sandboxes=4, warm_sandboxes=1)) as pool:
        yield pool


@pytest.fixture(scope="module")
def running(sandboxes: Pool, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """An API that gives each call three seconds."""
    settings = StorageSettings(redis_url=redis_url, data_dir=tmp_path_factory.mktemp("callers"), spool_url="")
    store = Store(Redis.from_url(redis_url), Spool(settings.spool))
    with serving(Services(store, sandboxes, ApiSettings(score_s=3.0)), settings) as service:
        yield service


def in_use(service: Service) -> tuple[int, int]:
    """The sandboxes and threads that calls hold."""
    services = service.services
    return services.pool._ready._in_use, services._grading._threads.borrowed_tokens


def send(service: Service, secret: str, path: str, body: str, method: str = "POST") -> socket.socket:
    """Sends a whole request. The answer stays unread."""
    url = httpx.URL(service.url)
    connection = socket.create_connection((url.host, url.port or 80))
    connection.sendall(request(secret, method, path, body.encode()))
    return connection


def sleeping(**more: Any) -> str:
    return json.dumps({"source": _SLEEPS, "timeout_s": 60, "threads": [{"completion": "slow"}], **more})


_GRADER = {"type": "python", "name": "slow", "source": "import time\ndef grade(sample, item):\n    time.sleep(20)\n"}
_LOADS = {**_GRADER, "source": "import time\ntime.sleep(8)\ndef grade(sample, item):\n    return 1.0\n"}
_TURNS = '{"turns": [{"role": "assistant", "content": "slow"}]}'
_MUTATION = 'mutation($code: String!) { validateFunctionGrader(project: "default", code: $code) { valid } }'
CALLS = {
    "score": (f"{PROJECT}/graders/slow/score", _SLOW),
    "validate": (f"{PROJECT}/validate", sleeping()),
    "validate, module body": (f"{PROJECT}/validate", sleeping(source="import time\ntime.sleep(8)\n" + GOOD)),
    "create": (f"{PROJECT}/graders", sleeping(key="another")),
    "openai run": (
        "/openai/v1/fine_tuning/alpha/graders/run",
        json.dumps({"grader": _GRADER, "model_sample": "x", "item": {}}),
    ),
    "openai validate": ("/openai/v1/fine_tuning/alpha/graders/validate", json.dumps({"grader": _LOADS})),
    "reward": ("/reward/default/slow/score", _TURNS),
    "reward, several": ("/reward/default/slow/batch_score", f'{{"requests": [{_TURNS}]}}'),
    "graphql": (
        "/api/graphql",
        json.dumps({"query": _MUTATION, "variables": {"code": "import time\ntime.sleep(8)\n" + GOOD}}),
    ),
}


@pytest.fixture
def slow(client: httpx.Client) -> None:
    """A grader that sleeps."""
    made = {"key": "slow", "source": _SLEEPS, "timeout_s": 60, "threads": [{"completion": "4"}]}
    client.post(f"{PROJECT}/graders", json=made).raise_for_status()


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("name", CALLS)
def test_a_client_that_goes_frees_what_its_call_held(name: str, service: Service, secret: str) -> None:
    path, body = CALLS[name]
    connection = send(service, secret, path, body)
    eventually(lambda: in_use(service) == (1, 1))
    time.sleep(0.3)
    assert in_use(service) == (1, 1)
    connection.close()
    assert eventually(lambda: in_use(service) == (0, 0)) < 1.0
    assert service.services._grading.shares._held == {}
    assert service.services.pool._shares._held == {}


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("requests", [1, 10 * SCORERS * TOGETHER])
def test_a_websocket_that_closes_frees_what_it_held(requests: int, service: Service, secret: str) -> None:
    """Also if requests of the websocket wait."""
    url = f"ws://{httpx.URL(service.url).netloc.decode()}/reward/default/slow/ws"
    head = {"Authorization": f"Bearer {secret}"}
    with connect(url, additional_headers=head, close_timeout=0.1) as connection:
        for number in range(requests):
            connection.send(json.dumps({"id": number, "turns": [{"role": "assistant", "content": "slow"}]}))
        held = min(requests, 2)  # one project may have half of the four sandboxes
        eventually(lambda: sum(service.services.pool._shares._held.values()) == held)
        time.sleep(0.2)
    assert eventually(lambda: in_use(service) == (0, 0)) < 1.0
    assert service.services._grading.shares._held == service.services.pool._shares._held == {}


@pytest.mark.usefixtures("slow")
def test_a_slow_request_of_a_websocket_costs_no_other_its_score(service: Service, secret: str) -> None:
    """The server scores waiting requests together; all have the time of one call."""
    url = f"ws://{httpx.URL(service.url).netloc.decode()}/reward/default/slow/ws"
    count, slow = 4 * TOGETHER * SCORERS, TOGETHER * SCORERS + 3
    answers: dict[int, dict[str, Any]] = {}
    with connect(url, additional_headers={"Authorization": f"Bearer {secret}"}) as connection:
        for number in range(count):
            text = "slow" if number == slow else "4"
            connection.send(json.dumps({"id": number, "turns": [{"role": "assistant", "content": text}]}))
        while len(answers) < count:
            message = json.loads(connection.recv(timeout=30))
            if "chunk" in message:
                answers[message["id"]] = json.loads(message["chunk"])
    error = answers.pop(slow)["metadata"]["error"]
    assert (error["kind"], error["retryable"]) == ("timeout", True)
    assert {str(answer) for answer in answers.values() if answer["reward"] != 1.0} == set()


@pytest.mark.usefixtures("slow")
def test_a_client_that_goes_during_a_proof_changes_nothing(service: Service, client: httpx.Client, secret: str) -> None:
    before = client.get(f"{PROJECT}/graders/slow").json()
    connection = send(service, secret, f"{PROJECT}/graders/slow", sleeping(source=_SLEEPS + "\n"), "PUT")
    eventually(lambda: in_use(service) == (1, 1))
    connection.close()
    assert eventually(lambda: in_use(service) == (0, 0)) < 8.0
    assert client.get(f"{PROJECT}/graders/slow").json() == before


@pytest.mark.usefixtures("slow")
def test_a_score_takes_no_longer_than_it_may_and_says_what_to_do(client: httpx.Client) -> None:
    threads = [{"completion": "4"}] * 3 + [{"completion": "slow"}] * 3
    began = time.monotonic()
    detail = problem(client.post(f"{PROJECT}/graders/slow/score", json={"threads": threads}), 504, "timeout")
    assert 2.9 < time.monotonic() - began < 15  # each slow thread sleeps for 20 s
    assert "of 6 threads were scored in 3 s" in detail
    assert "GRADEBOX_SCORE_S" in detail and "batch" in detail


def test_a_test_run_takes_no_longer_than_its_call_may(client: httpx.Client) -> None:
    began = time.monotonic()
    body = json.loads(sleeping(threads=[{"completion": "slow"}] * 20))
    problem(client.post(f"{PROJECT}/validate", json=body), 504, "timeout")
    assert time.monotonic() - began < 15


@contextmanager
def slow_calls(service: Service, secret: str, count: int) -> Iterator[None]:
    """Calls of one project, which has 16 places. When the clients go, no trace of them is left."""
    held = [send(service, secret, f"{PROJECT}/graders/slow/score", _SLOW) for _ in range(count)]
    try:
        eventually(lambda: in_use(service)[1] == 16)
        yield
    finally:
        for connection in held[::-1]:
            connection.close()
    assert eventually(lambda: in_use(service) == (0, 0)) < 1.5
    assert service.services._grading.shares._held == service.services._grading.shares._waiting == {}


@pytest.mark.alone
@pytest.mark.usefixtures("slow")
def test_another_project_is_scored_beside_forty_slow_calls(service: Service, client: httpx.Client, secret: str) -> None:
    client.post("/v1/projects", json={"key": "other"}).raise_for_status()
    client.post("/v1/projects/other/graders", json={"key": "g", "source": GOOD}).raise_for_status()
    with slow_calls(service, secret, 40):
        time.sleep(0.3)
        assert in_use(service)[1] == 16
        for _ in range(3):
            began = time.monotonic()
            answer = client.post("/v1/projects/other/graders/g/score", json={"threads": [{"completion": "4"}]})
            assert answer.json()["outcomes"][0]["score"] == 1.0
            assert time.monotonic() - began < 1.5


@pytest.mark.usefixtures("slow")
def test_who_uses_up_the_own_share_is_told_so(
    service: Service, client: httpx.Client, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "PLACE_S", 0.5)
    with slow_calls(service, secret, 16):
        answer = client.post(f"{PROJECT}/graders/slow/score", json={"threads": [{"completion": "4"}]})
        said = problem(answer, 429, "busy")
        assert "this project has had all 16 calls that grade" in said and said.endswith(", or send a batch")
        assert answer.headers["Retry-After"]


@pytest.mark.usefixtures("slow")
def test_clients_that_go_while_they_wait_for_a_place_leave_no_trace(service: Service, secret: str) -> None:
    with slow_calls(service, secret, 20):
        eventually(lambda: len(service.services._grading.shares._waiting.get("default", ())) == 4)
