"""Tests of endpoints over HTTP. What they share with models is in test_models.py."""

from collections.abc import Iterator

import httpx
import pytest

from examples.model_server import ModelServer, Script
from tests.api.conftest import GOOD, PROJECT, Service, answer_of, problem

PATH = f"{PROJECT}/endpoints"
SECRET = "secret-of-an-endpoint-0123456789"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(Script(api_key=SECRET, reward=0.25)) as server:
        yield server


@pytest.mark.usefixtures("here")
def test_put_creates_one_or_changes_what_it_is_given(client: httpx.Client, server: ModelServer) -> None:
    body = {"url": server.base_url, "api_key": SECRET}
    assert answer_of(client.put(f"{PATH}/reward", json=body), 200)["has_api_key"]
    trial = client.post(f"{PATH}/reward/test").json()
    assert (trial["passed"], trial["reward"], trial["error"]) == (True, 0.25, None)
    assert [turn["role"] for turn in server.bodies[0]["turns"]] == ["user", "assistant"]
    found = client.get(f"{PATH}/reward").json()
    again = answer_of(client.put(f"{PATH}/reward", json={"url": server.base_url, "timeout_s": 60}), 200)
    assert again == {**found, "timeout_s": 60, "updated_at": again["updated_at"], "tested_at": None}
    new = answer_of(client.put(f"{PATH}/new", json={"url": server.base_url}), 200)
    assert (new["key"], new["has_api_key"]) == ("new", False)
    problem(client.put(f"{PATH}/newer", json={"timeout_s": 5}), 404, "not-found")


@pytest.mark.usefixtures("here")
def test_headers_are_sent_and_never_shown(client: httpx.Client, service: Service, server: ModelServer) -> None:
    headers = {"X-API-Key": SECRET, "X-Team": "blue team"}
    body = {"key": "reward", "url": server.base_url, "headers": headers}
    answers = [client.post(PATH, json=body), client.post(f"{PATH}/reward/test"), client.get(PATH)]
    assert answers[1].json()["reward"] == 0.25
    assert {name: server.headers[0][name] for name in headers} == headers
    assert answer_of(answers[0], 201)["header_names"] == ["X-API-Key", "X-Team"]

    moved = client.patch(f"{PATH}/reward", json={"url": "http://127.0.0.1:9"})
    assert "give them again" in problem(moved, 409, "api-key-needed")
    both = client.put(f"{PATH}/reward", json={"api_key": SECRET, "headers": {"Authorization": f"Token {SECRET}"}})
    assert "`headers` has Authorization" in problem(both, 422, "invalid-request")
    answers += [moved, both, client.put(f"{PATH}/reward", json={"timeout_s": 5, "headers": {"X-Team": "red"}})]
    assert answers[-1].json()["header_names"] == ["X-Team"]
    assert client.patch(f"{PATH}/reward", json={"headers": {}}).json()["header_names"] == []
    assert client.post(f"{PATH}/reward/test").json()["error"]["kind"] == "refused"
    assert not server.headers[-1].keys() & headers.keys()
    answers += [client.put(f"{PATH}/new", json={"url": server.base_url, "headers": headers})]
    assert answers[-1].json()["header_names"] == ["X-API-Key", "X-Team"]
    answers += [client.get(f"{PROJECT}/audit")]
    assert "headers, timeout_s" in answers[-1].text
    assert all(value not in answer.text for answer in answers for value in headers.values())


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("headers", "said"),
    [
        *(({name: SECRET}, f"{name}, which the service sets") for name in (
            "Host", "content-length", "Transfer-Encoding", "connection", "TE", "Trailer", "Upgrade", "Keep-Alive",
            "Proxy-Authorization", "Content-Type", "Content-Encoding", "accept-encoding", "Expect",
        )),
        ({"X-A": "1", "x-a": "2"}, "x-a twice"),
        *(({name: SECRET}, "a name that is none") for name in ("", "X A", "X:", "X\r\nHost", "X\n", "Ä", "x" * 65)),
        *(({"X-A": value}, "the value of X-A") for value in (
            "", " ", " a", "a ", f"{SECRET}\n", f"a\r\nHost: {SECRET}", "ä", "a\tb", "a\x7f", "x" * 4097,
        )),
        ({"X-A": "x" * 4096, "X-B": "x" * 4096}, "8198 bytes"),
        ({f"X-{number}": "1" for number in range(17)}, "length <= 16"),
        ({"X-A": 1}, "Expected `str`"),
        ([], "Expected `object"),
    ],
)  # fmt: skip
def test_what_is_no_header(client: httpx.Client, headers: object, said: str) -> None:
    body = {"key": "reward", "url": "http://127.0.0.1:9"}
    refused = client.post(PATH, json={**body, "headers": headers})
    assert said in problem(refused, 422, "invalid-request")
    assert SECRET not in refused.text
    assert client.get(PATH).json() == []


@pytest.mark.usefixtures("here")
def test_headers_up_to_the_bounds(client: httpx.Client) -> None:
    most = {"x" * 64: "x" * 4096, "b": "a b", **{f"X-{number}": "1" for number in range(14)}}
    body = {"key": "reward", "url": "http://127.0.0.1:9", "headers": most}
    assert answer_of(client.post(PATH, json=body), 201)["header_names"] == sorted(most)
    problem(client.post(f"{PROJECT}/models", json={**body, "headers": {}}), 422, "invalid-request")
    unknown = client.patch(f"{PATH}/reward", json={"headers": {"TE": "trailers"}})
    assert "TE, which the service sets" in problem(unknown, 422, "invalid-request")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("behave", "kind"),
    [
        ("status", "unreachable"),
        ("redirect", "refused"),
        ("huge", "invalid_reply"),
        ("half", "unreachable"),
        ("gzip", "invalid_reply"),
        ("deep", "invalid_reply"),
        ("hang", "unreachable"),
        ("echo-key", "refused"),
    ],
)
def test_one_that_gives_no_reward(client: httpx.Client, behave: str, kind: str) -> None:
    with ModelServer(Script(behave=behave)) as server:
        body = {"key": "reward", "url": server.base_url, "api_key": SECRET, "timeout_s": 1}
        client.post(PATH, json=body).raise_for_status()
        answer = client.post(f"{PATH}/reward/test")
    trial = answer.json()
    assert (trial["passed"], trial["reward"], trial["error"]["kind"]) == (False, None, kind)
    assert SECRET not in answer.text
    assert client.get(f"{PATH}/reward").json()["tested_at"] is None
    assert len(server.bodies) == 1, "nothing is followed, and nothing is tried twice"


@pytest.mark.sandbox
@pytest.mark.usefixtures("here")
def test_a_grader_of_gradebox_is_an_endpoint(client: httpx.Client, service: Service) -> None:
    client.post(f"{PROJECT}/graders", json={"key": "good", "source": GOOD}).raise_for_status()
    key = client.headers["Authorization"].removeprefix("Bearer ")
    body = {"key": "own", "url": f"{service.url}/reward/default/good", "api_key": key}
    client.post(PATH, json=body).raise_for_status()
    trial = client.post(f"{PATH}/own/test").json()
    assert trial["passed"], trial
    assert isinstance(trial["reward"], float)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "change",
    [
        {"url": "http://user:pw@127.0.0.1"},
        {"url": "ws://127.0.0.1"},
        {"url": "http://127.0.0.1/?a=b"},
        {"url": ""},
        {"timeout_s": 0},  # as for models, whose tests have more
        {"tokens_per_minute": 1},
    ],
)
def test_what_is_no_endpoint(client: httpx.Client, change: dict[str, object]) -> None:
    body = {"key": "reward", "url": "http://127.0.0.1:9", **change}
    assert "pw" not in problem(client.post(PATH, json=body), 422, "invalid-request")
    assert client.get(PATH).json() == []
