"""Tests of every route of the OpenAPI document, also new ones, with every kind of key."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from api.access.failed_keys import FailedKeys
from models.settings import ModelSettings
from tests.api.access.test_auth import LINE, LINES, keyed
from tests.api.conftest import GOOD, PROJECT, Service
from worker.environments.settings import EnvironmentSettings

# Content of project `default` that other keys must never see.
MARKS = ("very-secret-grader", "very secret words", "very-secret-source")
PUBLIC = {"/healthz", "/readyz", "/metrics"}
# Last parts of paths that need the role `score`, as POST /batches and changes of /batches/{batch_id} do.
SCORES = {"validate", "score", "scores", "cancel", "retry", "feedback"}
BODIES: dict[str, dict[str, Any]] = {
    "/validate": {"source": GOOD},
    "/graders": {"key": "mine", "source": GOOD},
    "PUT /graders/{key}": {"source": GOOD, "name": "mine"},
    "PATCH /graders/{key}": {"name": "mine"},
    "/environments": {"key": "mine", "packages": ["mine"]},
    "PUT /environments/{key}": {"packages": ["mine"]},
    "/models": {"key": "mine", "base_url": "http://127.0.0.1:9/v1", "model": "m"},
    "PATCH /models/{key}": {"model": "other"},
    "PUT /budget": {"usd": 5},
    "/limits": {"score_threads": 500},
    "/endpoints": {"key": "mine", "url": "http://127.0.0.1:9/mine"},
    "PATCH /endpoints/{key}": {"timeout_s": 5},
    "/graders/{key}/score": {"threads": [{"turns": [["assistant", "4"]]}]},
    "PATCH /batches/{batch_id}": {"kept": True},
    "/batches/{batch_id}/feedback": {"model": "very-secret-grader"},
    "/batches": {"graders": [{"key": "very-secret-grader"}], "threads": [{"turns": [["assistant", "4"]]}]},
    "/v1/keys": {"name": "mine", "projects": ["*"]},
    "/v1/projects": {"key": "mine"},
}

# Required query parameters. Parts in braces are filled like those of paths.
QUERIES = {
    "/compare": {"a": "{batch_id}", "b": "{batch_id}"},
    "/batches/{batch_id}/agreement": {"label": "metadata.label"},
    "/batches/{batch_id}/scores": {"grader": "{key}"},
}
# Bodies that are JSON lines.
RECORDED = {"/batches/{batch_id}/scores": b'{"index": 0, "score": 1}'}


@dataclass(frozen=True)
class Route:
    """One operation of the document."""

    method: str
    path: str

    @property
    def in_project(self) -> bool:
        return "{project}" in self.path

    @property
    def role(self) -> str:
        """The role that the route needs, as in docs/keys.md. Other changes need the highest role."""
        last = self.path.rpartition("/")[2]
        if self.method == "GET":
            return "manage" if last in ("audit", "keys") else "read"
        if self.path == "/v1/me/sign-in":  # a sign-in link for the same key
            return "read"
        batches = (self.method, last) == ("POST", "batches") or last == "{batch_id}"
        return "score" if last in SCORES or batches else "manage"

    def ask(self, client: httpx.Client, filled: dict[str, str]) -> httpx.Response:
        """Sends a request that is as valid as possible, with these parts of the path."""
        place = self.path.removeprefix("/v1/projects/{project}")
        body = BODIES.get(place) or BODIES.get(f"{self.method} {place}", {})
        url = self.path.format_map(filled)
        query = {name: value.format_map(filled) for name, value in QUERIES.get(place, {}).items()}
        if place in RECORDED:
            return client.request(self.method, url, params=query, content=RECORDED[place], headers=LINES)
        return client.request(self.method, url, params=query, json=None if self.method in ("GET", "DELETE") else body)


@pytest.fixture(autouse=True)
def allowed(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Allows environments and all hosts of models, so that only roles decide."""
    monkeypatch.setattr(service.services, "models", ModelSettings(model_hosts=("*",), model_private="on"))
    monkeypatch.setattr(service.services, "environments", EnvironmentSettings(environments="on"))


@pytest.fixture
def filled(client: httpx.Client, allowed: None) -> dict[str, str]:
    """Parts of paths that refer to the content of project `default`."""
    key, words, source = MARKS
    grader = {"key": key, "name": words, "description": words, "source": f"# {source}\n{GOOD}"}
    client.post(f"{PROJECT}/graders", json=grader).raise_for_status()
    model = {"key": key, "base_url": "http://127.0.0.1:9/v1", "model": words, "api_key": source}
    client.post(f"{PROJECT}/models", json=model).raise_for_status()
    endpoint = {"key": key, "url": "http://127.0.0.1:9", "api_key": source}
    client.post(f"{PROJECT}/endpoints", json=endpoint).raise_for_status()
    batch = client.post(f"{PROJECT}/batches?grader={key}", content=LINE, headers=LINES).json()["id"]
    client.post("/v1/projects", json={"key": "other"}).raise_for_status()
    made = client.post("/v1/keys", json={"name": "spare", "projects": ["default"]}).json()["id"]
    return {"project": "default", "key": key, "batch_id": batch, "number": "1", "key_id": made}


@pytest.fixture
def routes(client: httpx.Client) -> list[Route]:
    paths = client.get("/openapi.json").json()["paths"]
    found = [Route(method.upper(), path) for path, operations in paths.items() for method in operations]
    assert len(found) > 20
    return found


def kept(service: Service) -> Iterator[tuple[bytes, bytes | None]]:
    """The Redis keys about projects, API keys, graders, batches and the audit log, with their values."""
    redis = service.store.redis
    rooms = "projects api-keys grader* environment* models:* endpoints:* budgets versions:* numbers:* batches:*"
    for room in f"{rooms} answer:* audit:*".split():
        for name in sorted(redis.scan_iter(f"gradebox:{room}")):
            yield name, redis.dump(name)


@pytest.fixture
def strangers(service: Service, client: httpx.Client) -> list[httpx.Client]:
    """Clients without a key, with a wrong one and with a revoked one."""
    service.services.failed_keys = FailedKeys(1000)  # more than the wrong keys that a test sends
    revoked = keyed(client, service, "manage", "*")
    client.delete(f"/v1/keys/{revoked.headers['Authorization'].split('_')[1]}").raise_for_status()
    wrong = httpx.Client(base_url=service.url, headers={"Authorization": "Bearer gbx_0123_wrong"})
    return [httpx.Client(base_url=service.url), wrong, revoked]


def test_without_a_key_and_with_a_wrong_or_revoked_one(
    service: Service, strangers: list[httpx.Client], routes: list[Route], filled: dict[str, str]
) -> None:
    before = list(kept(service))
    for route in routes:
        if route.path in PUBLIC:
            continue
        for stranger in strangers:
            response = route.ask(stranger, filled)
            assert response.status_code == 401, f"{route}: {response.text}"
            assert not any(mark in response.text for mark in MARKS), route
    assert list(kept(service)) == before


def test_another_projects_key_is_answered_as_if_there_were_nothing(
    service: Service, client: httpx.Client, routes: list[Route], filled: dict[str, str]
) -> None:
    nothing = filled | {"project": "nowhere"}
    with keyed(client, service, "manage", "other") as stranger:
        before = list(kept(service))
        for route in routes:
            response = route.ask(stranger, filled)
            assert response.status_code < 500, f"{route}: {response.text}"
            if not route.in_project:
                continue
            missing = route.ask(stranger, nothing)
            assert response.status_code == missing.status_code == 404, f"{route}: {response.text}"
            mine, theirs = response.json(), missing.json()
            assert mine.pop("request_id") != theirs.pop("request_id")
            assert mine == {**theirs, "detail": theirs["detail"].replace("nowhere", "default")}, route
            assert headers(response) == headers(missing), route
        assert list(kept(service)) == before


def test_another_projects_key_sees_nothing_of_it_in_its_own(
    service: Service, client: httpx.Client, routes: list[Route], filled: dict[str, str]
) -> None:
    own = filled | {"project": "other"}
    with keyed(client, service, "manage", "other") as stranger:
        for route in routes:
            response = route.ask(stranger, own)
            body = response.text.replace(str(response.request.url), "")
            if response.status_code == 404:  # the error repeats the requested key
                body = body.replace(filled["key"], "")
            assert not any(mark in body for mark in MARKS), f"{route}: {response.text}"
            needs_one = any(name in route.path for name in ("{key}", "{batch_id}", "/compare"))
            if needs_one and route.in_project:
                assert response.status_code == 404, f"{route}: {response.text}"
    assert client.get(f"{PROJECT}/batches/{filled['batch_id']}").status_code == 200
    assert client.get(f"{PROJECT}/graders/{filled['key']}").json()["version"] == 1


@pytest.mark.parametrize("role", ["read", "score"])
def test_a_role_that_does_not_suffice_changes_nothing(
    service: Service, client: httpx.Client, routes: list[Route], filled: dict[str, str], role: str
) -> None:
    allowed = {"read": ("read",), "score": ("read", "score")}[role]
    with keyed(client, service, role, "*") as narrow:
        before = list(kept(service))
        for route in routes:
            if route.role in allowed or route.path in PUBLIC:
                continue
            response = route.ask(narrow, filled)
            assert response.status_code == 403, f"{route}: {response.text}"
            assert f"role '{route.role}'" in response.json()["detail"], route
        assert list(kept(service)) == before


@pytest.mark.parametrize("role", ["read", "score", "manage"])
def test_a_role_that_suffices_is_let_through(
    service: Service, client: httpx.Client, routes: list[Route], filled: dict[str, str], role: str
) -> None:
    ranks = ["read", "score", "manage"]
    with keyed(client, service, role, "*") as key:
        for route in sorted(routes, key=lambda route: route.method == "DELETE"):
            if ranks.index(route.role) > ranks.index(role) or route.path.endswith("/events"):
                continue
            response = route.ask(key, filled)
            # The batch belongs to another key, so a key with the role `score` can change nothing of it but scores.
            changes_batch = route.path.endswith("/{batch_id}") and route.method != "GET"
            another = role == "score" and (changes_batch or route.path.endswith(("/cancel", "/retry")))
            assert response.status_code < 500, f"{route}: {response.text}"
            assert (response.status_code == 403) is another, f"{route}: {response.text}"
            assert response.status_code != 401, route


@pytest.mark.parametrize("framing", ["Content-Length: 10737418240", "Transfer-Encoding: chunked"])
def test_no_body_is_read_before_it_is_known_who_asks(service: Service, routes: list[Route], framing: str) -> None:
    """A client without a key announces a body (10 GB or endless) and sends none. The answer comes at once."""
    place = httpx.URL(service.url)
    for route in routes:
        if route.method in ("GET", "DELETE") or route.path in PUBLIC:
            continue
        url = route.path.format(project="default", key="k", batch_id="b", number=1, key_id="i")
        head = f"{route.method} {url} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{framing}\r\n\r\n"
        with socket.create_connection((place.host, place.port or 80), timeout=10) as connection:
            connection.sendall(head.encode())
            assert connection.recv(65536).startswith(b"HTTP/1.1 401"), route


def headers(response: httpx.Response) -> dict[str, str]:
    """The headers that are the same in all answers. The length varies with the name of the project."""
    passing = {"date", "x-request-id", "content-length"}
    return {name: value for name, value in response.headers.items() if name not in passing}
