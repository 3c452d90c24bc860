"""Tests of the connections that one API key may use and that are left to others."""

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
from tests.api.http.test_bounded_protocol import HEAD, connected, rest

MOST = 20


@pytest.fixture
def few(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits the service to twenty connections, after earlier connections are closed."""
    while service.serving.server_state.connections or service.serving.server_state.tasks:
        time.sleep(0.02)
    monkeypatch.setattr(service.services, "connections", Connections(MOST))
    for kind in BoundedProtocol.__subclasses__():
        monkeypatch.setattr(kind, "most", MOST)


@contextmanager
def busy(service: Service, secret: str, count: int) -> Iterator[list[socket.socket]]:
    """Sends `count` requests without their bodies."""
    head = "POST /v1/projects HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\nContent-Type: application/json\r\n"
    with ExitStack() as stack:
        found = []
        for _ in range(count):
            connection = stack.enter_context(connected(service))
            connection.sendall(f"{head}Authorization: Bearer {secret}\r\n\r\n".encode())
            found.append(connection)
        time.sleep(0.5)
        yield found


def another(service: Service, projects: list[str] | None = None) -> str:
    secret = service.store.api_keys.create("another", projects or ["*"]).secret
    assert secret is not None
    return secret


def test_one_key_keeps_half_of_the_connections_busy_at_most(service: Service, secret: str, few: None) -> None:
    with busy(service, secret, MOST // 2) as held:
        headers = {"Authorization": f"Bearer {secret}"}
        refused = httpx.get(f"{service.url}{PROJECT}/graders", headers=headers)
        assert "uses all 10 connections" in problem(refused, 429, "too-many-requests")
        assert (refused.headers["connection"], refused.headers["retry-after"]) == ("close", "1")
        assert httpx.get(f"{service.url}/healthz").status_code == 200
        others = {"Authorization": f"Bearer {another(service)}"}
        assert httpx.get(f"{service.url}{PROJECT}/graders", headers=others).status_code == 200
        held[0].sendall(b'{"key":"a"}')
        assert held[0].recv(65536).startswith(b"HTTP/1.1 201")
        assert httpx.get(f"{service.url}{PROJECT}/graders", headers=headers).status_code == 200


def test_some_are_left_to_whoever_has_no_key(service: Service, secret: str, few: None) -> None:
    with busy(service, secret, 10), busy(service, another(service), 8):
        headers = {"Authorization": f"Bearer {another(service)}"}
        refused = httpx.get(f"{service.url}{PROJECT}/graders", headers=headers)
        assert "18 connections are busy" in problem(refused, 503, "unavailable")
        assert httpx.get(f"{service.url}/healthz").status_code == 200


def test_what_is_over_is_not_counted(service: Service, client: httpx.Client, few: None) -> None:
    for _ in range(3 * MOST):
        client.get(f"{PROJECT}/graders")
        client.get(f"{PROJECT}/graders/nothing")
    assert not service.services.connections._busy


def test_who_sends_ahead_and_reads_nothing_gives_way(service: Service, few: None) -> None:
    ahead = (b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n") * 16
    with ExitStack() as stack:
        for _ in range(MOST):
            connection = stack.enter_context(connected(service, small=True))
            connection.sendall(ahead)
        time.sleep(1)
        with connected(service) as last:
            last.sendall(HEAD + b"Connection: close\r\n\r\n")
            assert rest(last).startswith(b"HTTP/1.1 200")


def test_of_one_keys_websockets_the_one_that_has_waited_longest_gives_way(
    service: Service, client: httpx.Client, secret: str, few: None
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
