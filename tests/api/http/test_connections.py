"""Tests of the connections that one tenant may use and that are left to others."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from api.http.bounded_protocol import BoundedProtocol
from api.http.connections import Connections
from tests.api.conftest import PROJECT, Service, problem
from tests.api.http.test_bounded_protocol import HEAD, answered, connected

MOST = 20


@pytest.fixture(autouse=True)
def few(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits the service to twenty connections, after earlier connections are closed."""
    while service.serving.server_state.connections or service.serving.server_state.tasks:
        time.sleep(0.02)
    monkeypatch.setattr(service.services, "connections", Connections(MOST))
    for kind in BoundedProtocol.__subclasses__():
        monkeypatch.setattr(kind, "most", MOST)


@contextmanager
def busy(service: Service, secret: str, count: int, path: str = "/v1/projects") -> Iterator[list[socket.socket]]:
    """Sends `count` requests without their bodies."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\nContent-Type: application/json\r\n"
    with ExitStack() as stack:
        found = []
        for _ in range(count):
            connection = stack.enter_context(connected(service))
            connection.sendall(f"{head}Authorization: Bearer {secret}\r\n\r\n".encode())
            found.append(connection)
        time.sleep(0.5)
        yield found


def listed(service: Service, secret: str, project: str = "default") -> httpx.Response:
    return httpx.get(f"{service.url}/v1/projects/{project}/graders", headers={"Authorization": f"Bearer {secret}"})


def test_one_project_keeps_half_of_the_connections_busy_at_most(service: Service, secret: str) -> None:
    """With all of its API keys together."""
    service.store.projects.ensure("other")
    keys = [service.key("default") for _ in range(5)]
    with ExitStack() as stack:
        held = [stack.enter_context(busy(service, key, MOST // 2 // 5, f"{PROJECT}/validate")) for key in keys]
        for key in (keys[0], service.key("default"), service.key("default", "other"), secret):
            refused = listed(service, key)
            detail = problem(refused, 429, "too-many-requests")
            assert "10 connections of this project are busy, as many as may be now" in detail
            assert (refused.headers["connection"], refused.headers["retry-after"]) == ("close", "1")
        assert httpx.get(f"{service.url}/healthz").status_code == 200
        for key in (service.key("other"), service.key("default", "other"), secret):
            assert listed(service, key, "other").status_code == 200
        held[0][0].sendall(b'{"key":"a"}')
        assert held[0][0].recv(65536).startswith(b"HTTP/1.1 4")
        assert listed(service, keys[0]).status_code == 200


def test_many_projects_together_leave_connections_to_the_next(service: Service) -> None:
    """Each may keep about half of those busy that others leave."""
    with ExitStack() as stack:
        for project, most in (("a", 10), ("b", 4), ("c", 2)):
            service.store.projects.ensure(project)
            keys = [service.key(project) for _ in range(2)]
            path = f"/v1/projects/{project}/validate"
            for key in keys:
                stack.enter_context(busy(service, key, most // 2, path))
            for key in keys:
                detail = problem(listed(service, key, project), 429, "too-many-requests")
                assert f"{most} connections of this project" in detail
        assert listed(service, service.key("default")).status_code == 200


def test_keys_of_no_single_project_have_a_limit_too(service: Service) -> None:
    """Keys that cover the same projects have one together, and a key that covers every project has its own."""
    service.store.projects.ensure("other")
    first, second = service.key("default", "other"), service.key("other", "default")
    body = '{"query": "{ projects { key } }"}'
    with busy(service, first, MOST // 2, "/api/graphql"):
        for key, is_served in ((second, False), (service.key("default"), True), (service.key(), True)):
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            answer = httpx.post(f"{service.url}/api/graphql", content=body, headers=headers, timeout=60)
            assert ("connections of these projects" in answer.text) is not is_served


def test_some_are_left_to_whoever_has_no_key(service: Service) -> None:
    with ExitStack() as stack:
        for most in (10, 4, 2, 1, 1):
            stack.enter_context(busy(service, service.key(), most))
        refused = listed(service, service.key())
        assert "18 connections are busy" in problem(refused, 503, "unavailable")
        assert httpx.get(f"{service.url}/healthz").status_code == 200


def test_what_is_over_is_not_counted(service: Service, client: httpx.Client) -> None:
    for _ in range(3 * MOST):
        client.get(f"{PROJECT}/graders")
        client.get(f"{PROJECT}/graders/nothing")
    assert not service.services.connections._busy


def test_who_sends_ahead_and_reads_nothing_gives_way(service: Service) -> None:
    ahead = (b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n") * 16
    with ExitStack() as stack:
        for _ in range(MOST):
            connection = stack.enter_context(connected(service, small=True))
            connection.sendall(ahead)
        time.sleep(1)
        assert answered(service, HEAD + b"Connection: close\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_of_one_projects_websockets_the_one_that_has_waited_longest_gives_way(
    service: Service, client: httpx.Client, secret: str
) -> None:
    client.post(f"{PROJECT}/graders", json={"key": "one", "source": "async def grade(thread):\n    return 1.0\n"})
    url = service.url.replace("http", "ws", 1) + f"/reward{PROJECT.removeprefix('/v1/projects')}/one/ws"
    headers = {"Authorization": f"Bearer {secret}"}
    asked = '{"id": 1, "turns": [{"role": "assistant", "content": "x"}]}'
    with ExitStack() as stack:
        opened = [stack.enter_context(connect(url, additional_headers=headers)) for _ in range(MOST // 2)]
        opened[0].send(asked)
        assert opened[0].recv(timeout=20)  # it has worked, so another one has waited longest
        more = [stack.enter_context(connect(url, additional_headers=headers)) for _ in range(3)]
        for gone in opened[1:4]:
            with pytest.raises(ConnectionClosedError, match="1013"):
                gone.recv(timeout=20)
        for kept in (opened[0], opened[4], *more):
            kept.send(asked)
            assert kept.recv(timeout=20)
    client.delete(f"{PROJECT}/graders/one")
