"""Tests of HEAD, of unknown query parameters, and of refusals while a client is still sending."""

import json
import urllib.error
import urllib.request

import httpx
import pytest

from tests.api.access.test_auth import LINES
from tests.api.conftest import PROJECT, Service, create, problem
from tests.api.http.test_bounded_protocol import answered, connected


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/docs", f"{PROJECT}/graders", "/v1/keys"])
def test_head_is_get_without_a_body(client: httpx.Client, path: str) -> None:
    got, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]


def test_head_of_what_is_not_there_or_not_read(client: httpx.Client) -> None:
    assert client.head(f"{PROJECT}/graders/nothing").status_code == 404
    assert client.head(f"{PROJECT}/validate").status_code == 405


def test_head_of_a_stream_ends(client: httpx.Client, service: Service) -> None:
    create(client)
    headers = {"Content-Type": "application/x-ndjson"}
    batch = client.post(f"{PROJECT}/batches?grader=exact", content=b'{"completion":"4"}', headers=headers).json()["id"]
    for path in ("events", "outcomes"):
        assert client.head(f"{PROJECT}/batches/{batch}/{path}").status_code == 200
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "takes"),
    [
        ("GET", f"{PROJECT}/batches/0", "it takes bootstrap, combined, wait_s"),
        ("POST", f"{PROJECT}/batches", "it takes budget_tokens, budget_usd, grader, replies"),
        ("POST", f"{PROJECT}/validate", "it takes ask, environment, grader, isolation, memory_mb, timeout_s"),
        ("GET", "/v1/keys", "it takes none"),
    ],
)
def test_unknown_parameters_are_named_with_known_ones(client: httpx.Client, method: str, path: str, takes: str) -> None:
    detail = problem(client.request(method, f"{path}?limti=5&x=1"), 422, "invalid-request")
    assert "'limti', 'x'" in detail and takes in detail


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", f"{PROJECT}/batches?limit=5&grader=a&grader=b"), ("POST", f"{PROJECT}/validate?grader=a&grader=b")],
)
def test_a_parameter_of_which_one_counts_is_not_repeated(client: httpx.Client, method: str, path: str) -> None:
    assert "has 'grader' 2 times" in problem(client.request(method, path), 422, "invalid-request")
    lists = client.post(f"{PROJECT}/batches?grader=a&grader=b&weight=1&weight=2", content=b"{}", headers=LINES)
    assert "no grader 'a'" in problem(lists, 404, "not-found")
    picked = client.get(f"{PROJECT}/batches/x/threads?index=1&index=2")
    assert "no batch 'x'" in problem(picked, 404, "not-found")


def test_every_route_of_v1_refuses_unknown_parameters(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    tried = [(method, path) for path in paths if path.startswith("/v1") for method in paths[path]]
    assert len(tried) > 20
    for method, path in tried:
        filled = path.replace("{project}", "default").replace("{number}", "1").replace("{", "").replace("}", "")
        assert "no query parameter 'zz'" in problem(client.request(method, f"{filled}?zz=1"), 422, "invalid-request")


def test_the_document_tells_of_problems_of_every_route_of_v1(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    told = [(path, one["responses"]) for path in paths if path.startswith("/v1") for one in paths[path].values()]
    assert len(told) > 30
    for path, responses in told:
        assert "application/problem+json" in responses.get("401", {}).get("content", {}), path
    answers = paths["/v1/projects/{project}/batches"]["post"]["responses"]
    assert {"202", "401", "403", "404", "409", "413", "415", "422", "429", "503", "507"} <= set(answers)
    assert list(answers["422"]["content"]) == ["application/problem+json"]
    assert "412" in paths["/v1/projects/{project}/graders/{key}"]["put"]["responses"]
    batch = "/v1/projects/{project}/batches/{batch_id}"
    reading = [(f"{batch}/{name}", "get") for name in ("outcomes", "table", "errors", "agreement")]
    changing = [(f"{batch}/scores", "put"), (f"{batch}/retry", "post"), (f"{batch}/feedback", "post")]
    for path, method in [*reading, *changing]:
        assert "410" in paths[path][method]["responses"], path
    assert list(paths["/metrics"]["get"]["responses"]["200"]["content"]) == ["text/plain"]


def test_what_a_body_holds_is_not_left_unread_in_the_query(client: httpx.Client) -> None:
    detail = problem(client.post(f"{PROJECT}/graders?key=a", json={"key": "b", "source": ""}), 422, "invalid-request")
    assert "send key in the body" in detail
    body = {"graders": [{"key": "b"}], "threads": [{}]}
    assert "leave `grader`" in problem(client.post(f"{PROJECT}/batches?grader=a", json=body), 422, "invalid-request")


@pytest.mark.parametrize(
    ("path", "kind", "is_known", "status"),
    [
        ("validate", "text/x-python", True, 413),
        ("validate", "text/x-python", False, 401),
        ("validate", "image/png", True, 415),
        ("graders/nothing/score?x=1", "application/json", True, 422),
    ],
)
def test_a_client_that_is_still_sending_sees_why_it_is_refused(
    service: Service, secret: str, path: str, kind: str, is_known: bool, status: int
) -> None:
    """urllib sends `Connection: close`, and reads nothing until all is sent."""
    headers = {"Content-Type": kind, "Authorization": f"Bearer {secret if is_known else 'x'}"}
    request = urllib.request.Request(f"{service.url}{PROJECT}/{path}", b"#" * (50 << 20), headers)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=30)
    assert caught.value.code == status
    assert json.loads(caught.value.read())["status"] == status


def test_what_comes_of_a_refused_request_is_bounded(service: Service) -> None:
    head = b"POST /v1/projects HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 100000000000\r\n\r\n"
    sent = 0
    with connected(service) as connection:
        connection.sendall(head)
        with pytest.raises(ConnectionError):
            while sent < 1 << 30:
                sent += connection.send(bytes(1 << 20))
    assert 50_000_000 < sent < 100_000_000


def test_a_refused_head_is_answered_before_the_connection_ends(service: Service) -> None:
    assert answered(service, b"GET /healthz HTTP/1.1\r\nX-Long: " + b"x" * 500_000).startswith(b"HTTP/1.1 431")
