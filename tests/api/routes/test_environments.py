"""Environments over HTTP; tests/gradebox/test_environments.py builds some."""

from collections.abc import Iterator

import httpx
import pytest

from storage.environments import Made
from tests.api.conftest import PROJECT, Service, create, problem
from worker.environments.settings import EnvironmentSettings

PATH = f"{PROJECT}/environments"
SHA256 = "a" * 64


@pytest.fixture
def on(service: Service) -> Iterator[None]:
    """The operator lets environments be built. Nobody builds them here."""
    before = service.services.environments
    service.services.environments = EnvironmentSettings(environments="on")
    yield
    service.services.environments = before


def test_nobody_may_build_unless_the_operator_says_so(client: httpx.Client) -> None:
    answer = client.post(PATH, json={"key": "math", "requirements": ["sympy"]})
    assert "GRADEBOX_ENVIRONMENTS=on" in problem(answer, 403, "forbidden")
    assert client.get(PATH).json() == []


@pytest.mark.usefixtures("on")
def test_one_is_made_and_read(client: httpx.Client, service: Service) -> None:
    made = client.post(PATH, json={"key": "math", "requirements": ["SymPy == 1.14", "numpy"]})
    assert made.status_code == 202, made.text
    assert made.json()["builds"][0]["requirements"] == ["numpy", "sympy==1.14"]
    assert client.get(PATH).json() == [made.json()]

    claim = service.store.environments.claim()
    assert claim is not None
    service.store.environments.fail(claim, "no wheels")
    found = client.get(f"{PATH}/math", params={"wait_s": 5}).json()
    assert (found["state"], found["builds"][0]["reason"]) == ("failed", "no wheels")
    assert client.put(f"{PATH}/math", json={"requirements": ["numpy"]}).json()["build"] == 2
    problem(client.post(PATH, json={"key": "math", "requirements": ["numpy"]}), 409, "conflict")
    assert client.delete(f"{PATH}/math").status_code == 204
    problem(client.get(f"{PATH}/math"), 404, "not-found")


@pytest.mark.usefixtures("on")
def test_an_answer_waits_for_the_next_step(client: httpx.Client, service: Service) -> None:
    client.post(PATH, json={"key": "math", "requirements": ["numpy"]})
    waited = client.get(f"{PATH}/math", params={"wait_s": 0.5})
    assert waited.elapsed.total_seconds() >= 0.5
    assert waited.json()["builds"][0]["step"] == "waiting"


@pytest.mark.usefixtures("on")
@pytest.mark.parametrize(
    "body",
    [
        {"key": "math", "requirements": ["a @ https://example.org/a.whl"]},
        {"key": "math", "requirements": ["-r x.txt"]},
        {"key": "math", "requirements": []},
        {"key": "math", "requirements": "numpy"},
        {"key": "Math", "requirements": ["numpy"]},
        {"key": "math"},
        {"key": "math", "requirements": ["numpy"], "index": "https://example.org"},
    ],
)
def test_what_cannot_be_asked_for(client: httpx.Client, body: dict[str, object]) -> None:
    problem(client.post(PATH, json=body), 422, "invalid-request")


@pytest.mark.usefixtures("on")
def test_a_grader_needs_a_build_that_is_ready(client: httpx.Client, service: Service) -> None:
    source = "async def grade(thread):\n    return 1.0\n"
    wanted = {"key": "in-math", "source": source, "environment": "math"}
    problem(client.post(f"{PROJECT}/graders", json=wanted), 404, "not-found")
    client.post(PATH, json={"key": "math", "requirements": ["numpy"]})
    assert "still being built" in problem(client.post(f"{PROJECT}/graders", json=wanted), 409, "conflict")
    problem(client.post(f"{PROJECT}/validate", json={"source": source, "environment": "math@1"}), 409, "conflict")
    problem(client.post(f"{PROJECT}/validate", json={"source": source, "environment": "a b"}), 422, "invalid-request")
    problem(
        client.post(f"{PROJECT}/validate", json={"source": source, "environment": "math@0"}), 422, "invalid-request"
    )


@pytest.mark.usefixtures("on")
def test_a_content_that_is_lost_is_no_score(client: httpx.Client, service: Service) -> None:
    client.post(PATH, json={"key": "math", "requirements": ["numpy"]})
    claim = service.store.environments.claim()
    assert claim is not None
    service.store.environments.finish(claim, Made([], SHA256, "3.12", 1, 1))

    wanted = {"source": "async def grade(thread):\n    return 1.0\n", "environment": "math"}
    problem(client.post(f"{PROJECT}/validate", json=wanted), 503, "unavailable")
    create(client)  # others go on
