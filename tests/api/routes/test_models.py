"""Tests of models over HTTP, and of what endpoints share with them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from examples.model_server import ModelServer, Script
from models.settings import ModelSettings
from tests.api.conftest import PROJECT, Service, answer_of, problem

PATH = f"{PROJECT}/models"
SECRET = "sk-very-secret-of-a-model-0123456789"
SERVERS = [(PATH, "base_url", {"model": "m"}), (f"{PROJECT}/endpoints", "url", {})]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(Script(api_key=SECRET)) as server:
        yield server


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("path", "url", "more"), SERVERS)
def test_one_is_made_tested_changed_and_removed(
    client: httpx.Client, server: ModelServer, path: str, url: str, more: dict[str, str]
) -> None:
    body = {"key": "own", url: f"{server.base_url}/", "api_key": SECRET, "requests_per_minute": 60, **more}
    made = answer_of(client.post(path, json=body), 201)
    assert (made[url], made["has_api_key"]) == (server.base_url, True)
    assert (made["max_concurrency"], made["requests_per_minute"]) == (16, 60)
    assert server.bodies == []
    problem(client.post(path, json=body), 409, "conflict")

    trial = client.post(f"{path}/own/test").json()
    assert (trial["passed"], trial["error"]) == (True, None), trial
    found = client.get(f"{path}/own").json()
    assert found["tested_at"] is not None
    assert client.get(path).json() == [found]

    moved = client.patch(f"{path}/own", json={url: "http://127.0.0.1:9/v1"})
    assert "give the key again" in problem(moved, 409, "api-key-needed")
    changed = client.patch(f"{path}/own", json={"api_key": "wrong", "timeout_s": 5, "requests_per_minute": 0}).json()
    assert (changed["tested_at"], changed["timeout_s"], changed["requests_per_minute"]) == (None, 5, None)
    assert client.patch(f"{path}/own", json={"max_concurrency": 2}).json()["max_concurrency"] == 2
    refused = client.post(f"{path}/own/test").json()
    assert (refused["passed"], refused["error"]["kind"]) == (False, "refused")

    assert client.delete(f"{path}/own").status_code == 204
    problem(client.get(f"{path}/own"), 404, "not-found")
    problem(client.post(f"{path}/own/test"), 404, "not-found")
    audit = client.get(f"{PROJECT}/audit").text
    noun = path.rpartition("/")[2].removesuffix("s")
    assert all(f"{noun}.{action}" in audit for action in ("create", "test", "update", "delete"))
    assert SECRET not in audit


@pytest.mark.usefixtures("here")
def test_put_creates_one_or_changes_what_it_is_given(client: httpx.Client, server: ModelServer) -> None:
    lacking = client.put(f"{PATH}/judge", json={"model": "m", "input_price": 1, "output_price": 2})
    problem(lacking, 404, "not-found")
    misnamed = client.put(f"{PATH}/-judge", json={"base_url": "http://a/v1", "model": "m"})
    assert "key" in problem(misnamed, 422, "invalid-request")
    body = {"base_url": server.base_url, "model": "m", "api_key": SECRET, "defaults": {"seed": 1}, "timeout_s": 5}
    made = answer_of(client.put(f"{PATH}/judge", json={**body, "input_price": 1, "output_price": 2}), 200)
    assert (made["has_api_key"], made["defaults"]["seed"], made["output_price"]) == (True, 1, 2)
    again = answer_of(client.put(f"{PATH}/judge", json={"base_url": server.base_url, "model": "n"}), 200)
    assert again == {**made, "model": "n", "updated_at": again["updated_at"]}
    trial = client.post(f"{PATH}/judge/test").json()
    assert (trial["structured_output"], trial["logprobs"]) == (True, True), trial
    assert [one["seed"] for one in server.bodies] == [1, 1, 1]
    problem(client.put(f"{PATH}/judge", json={"base_url": "http://127.0.0.1:9/v1"}), 409, "api-key-needed")


@pytest.mark.usefixtures("here")
def test_a_test_is_spending_of_the_project_and_refused_when_the_budget_is_spent(
    client: httpx.Client, server: ModelServer
) -> None:
    body = {"key": "judge", "base_url": server.base_url, "model": "m", "api_key": SECRET}
    client.post(PATH, json={**body, "input_price": 1_000, "output_price": 2_000}).raise_for_status()
    assert client.post(f"{PATH}/judge/test").json()["passed"]
    spent = client.get(f"{PROJECT}/spending").json()
    assert (spent["total"]["asks"], spent["total"]["input_tokens"], spent["total"]["output_tokens"]) == (3, 30, 15)
    assert spent["total"]["usd"] == pytest.approx(0.06)
    assert spent["by"] == {"model:judge": spent["total"]}

    budget = {"usd": 0.05, "period": "day"}
    assert client.put(f"{PROJECT}/budget", json=budget).json()["is_spent"]
    refused = client.post(f"{PATH}/judge/test").json()
    assert (refused["passed"], refused["error"]["kind"], refused["error"]["retryable"]) == (False, "over_budget", False)
    assert (
        "the project's budget of 0.05 USD a day is used up, so the model was not asked" in refused["error"]["message"]
    )
    assert len(server.bodies) == 3
    assert client.get(f"{PATH}/judge").json()["structured_output"] is True
    client.put(f"{PROJECT}/budget", json={**budget, "usd": 0.07}).raise_for_status()
    assert client.post(f"{PATH}/judge/test").json()["passed"]


@pytest.mark.usefixtures("here")
def test_how_much_it_is_asked_and_what_that_costs(client: httpx.Client, server: ModelServer) -> None:
    prices = {"input_price": 0.15, "output_price": 0.6}
    limits = {"max_concurrency": 4, "requests_per_minute": 60, "tokens_per_minute": 90_000}
    body = {"key": "judge", "base_url": server.base_url, "model": "m", "api_key": SECRET}
    made = client.post(PATH, json={**body, **limits, **prices, "keep_replies": False}).json()
    assert {name: made[name] for name in limits} == limits
    assert (made["input_price"], made["output_price"], made["keep_replies"]) == (0.15, 0.6, False)
    client.post(f"{PATH}/judge/test").raise_for_status()
    no_limits = {"requests_per_minute": 0, "tokens_per_minute": 0, "input_price": 0}
    changed = client.patch(f"{PATH}/judge", json={**no_limits, "keep_replies": True}).json()
    assert (changed["requests_per_minute"], changed["tokens_per_minute"], changed["keep_replies"]) == (None, None, True)
    assert (changed["input_price"], changed["output_price"]) == (0, 0.6)
    assert changed["structured_output"] is True, "no answer of its server changes with these"
    plain = client.post(PATH, json={**body, "key": "plain"}).json()
    half = problem(client.patch(f"{PATH}/plain", json={"output_price": 1}), 422, "invalid-request")
    assert half.startswith("a model has both `input_price` and `output_price`, or neither")
    assert (plain["max_concurrency"], plain["requests_per_minute"], plain["tokens_per_minute"]) == (16, None, None)
    assert (plain["input_price"], plain["output_price"], plain["keep_replies"]) == (None, None, True)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "change",
    [
        {"base_url": "http://user:pw@127.0.0.1/v1"},
        {"base_url": "http://127.1/v1"},
        {"base_url": "file:///etc/passwd"},
        {"base_url": ""},
        {"model": ""},
        {"key": "Judge"},
        {"api_key": "a b"},
        {"api_key": "a\r\nX-Evil: 1"},
        {"api_key": "ü"},
        {"api_key": "a" * 4097},
        {"defaults": {"temperature": 3}},
        {"defaults": {"max_tokens": 0}},
        {"defaults": {"stop": "x"}},
        {"timeout_s": 601},
        {"extra_headers": {}},
        {"max_concurrency": 0},
        {"requests_per_minute": -1},
        {"tokens_per_minute": 1.5},
        {"input_price": 1},
        {"input_price": -1, "output_price": 1},
        {"price": {"input": 1, "output": 1}},
        {"keep_replies": "no"},
    ],
)
def test_what_is_no_model(client: httpx.Client, change: dict[str, object]) -> None:
    body = {"key": "judge", "base_url": "http://127.0.0.1:9/v1", "model": "m", **change}
    detail = problem(client.post(PATH, json=body), 422, "invalid-request")
    assert "pw" not in detail
    assert client.get(PATH).json() == []


@pytest.mark.parametrize(("path", "url", "more"), SERVERS)
def test_the_operator_says_where(
    client: httpx.Client,
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    url: str,
    more: dict[str, str],
) -> None:
    body = {"key": "one", url: "https://api.example.com", **more}
    assert "GRADEBOX_MODEL_HOSTS" in problem(client.post(path, json=body), 403, "forbidden")
    public = ModelSettings(model_hosts=("*",), model_private="off")
    monkeypatch.setattr(service.services, "models", public)
    for host in ("127.0.0.1:8000", "10.1.2.3", "169.254.169.254", "[::ffff:169.254.169.254]", "[::1]", "0.0.0.0"):
        problem(client.post(path, json={**body, url: f"http://{host}/v1"}), 403, "forbidden")
    client.post(path, json=body).raise_for_status()
    problem(client.patch(f"{path}/one", json={url: "http://169.254.169.254"}), 403, "forbidden")
    client.patch(f"{path}/one", json={url: "http://localhost:9"}).raise_for_status()  # the name is resolved later
    error = client.post(f"{path}/one/test").json()["error"]
    assert error["kind"] == "refused"
    assert "is private" in error["message"]


@pytest.mark.usefixtures("here")
def test_a_key_file_that_was_lost_is_told(
    client: httpx.Client, service: Service, server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    from storage.models.secret_key import SecretKey

    body = {"key": "judge", "base_url": server.base_url, "model": "m", "api_key": SECRET}
    client.post(PATH, json=body).raise_for_status()
    mine = service.store.models._secret_key
    service.store.models._secret_key = SecretKey(service.settings.data_dir / "another")
    try:
        answer = client.post(f"{PATH}/judge/test")
    finally:
        service.store.models._secret_key = mine
    assert "GRADEBOX_SECRET_KEY_FILE" in problem(answer, 503, "unavailable")
    assert answer.headers["retry-after"] == "1"
    assert "GRADEBOX_SECRET_KEY_FILE" in caplog.text  # the operator is told too
    assert server.bodies == []


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("path", "url", "more"), SERVERS)
def test_of_puts_that_create_one_at_once_none_is_refused(
    client: httpx.Client, path: str, url: str, more: dict[str, str]
) -> None:
    body = {url: "http://127.0.0.1:9/v1", **more}
    with ThreadPoolExecutor() as pool:
        made = pool.map(lambda _: client.put(f"{path}/shared", json=body), range(8))
        assert {put.status_code for put in made} == {200}
