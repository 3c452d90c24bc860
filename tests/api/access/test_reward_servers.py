"""Tests that the service calls external reward servers only if the operator allows it."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from api.access import reward_servers
from api.access.reward_servers import EndpointError, EndpointInfo, ask

INFO = b'{"name": "n", "version": "1", "description": "d"}'
ANSWERS = {
    "/good/info": (200, INFO),
    "/broken/info": (500, b"secret"),
    "/html/info": (200, b"<html>secret"),
    "/long/info": (200, b" " * (reward_servers.ANSWER_BYTES + 1) + INFO),
    "/deep/info": (200, b"[" * 10_000),
    "/moved/info": (302, b""),
}


class Server(ThreadingHTTPServer):
    asked: list[tuple[str, str | None]]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        self.server.asked.append((self.path, self.headers["Host"]))
        status, body = ANSWERS[self.path]
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/good/info")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def at(server: Server, path: str, host: str = "127.0.0.1") -> str:
    return f"http://{host}:{server.server_port}{path}"


def refused(url: str, *allowed: str) -> str:
    with pytest.raises(EndpointError) as caught:
        ask(url, allowed)
    assert "secret" not in str(caught.value)
    return str(caught.value)


def test_an_allowed_server_says_what_it_is(server: Server) -> None:
    host = f"127.0.0.1:{server.server_port}"
    for path in ("/good", "/good/", "/good?x=1#y"):
        assert ask(at(server, path), [host]) == EndpointInfo(name="n", version="1", description="d")
    assert server.asked[-1] == ("/good/info", host)
    named = f"localhost:{server.server_port}"
    assert ask(at(server, "/good", "LocalHost"), [named]).name == "n"
    assert server.asked[-1][1] == named, "the server is told the name, and its checked address is what was dialled"


def test_nothing_is_asked_unless_the_operator_names_it(server: Server) -> None:
    server.asked.clear()
    other = f"127.0.0.1:{server.server_port + 1}"
    for allowed in ((), ("127.0.0.1",), (other,), ("example.com",)):
        assert "GRADEBOX_ALLOWED_ENDPOINTS" in refused(at(server, "/good"), *allowed)
    assert server.asked == []


def test_a_name_does_not_stand_for_this_machine_or_for_metadata(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.asked.clear()
    machine = ("127.0.0.1", "::ffff:127.0.0.1", "0.0.0.0", "0.1.2.3", "fe80::1%lo")
    metadata = ("169.254.169.254", "100.100.100.200", "168.63.129.16", "fd00:ec2::254", "64:ff9b::a9fe:a9fe")
    for address in (*machine, *metadata, "224.0.0.1"):
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, server.server_port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, found=found, **__: found)
        host = f"reward.example:{server.server_port}"
        assert "which is never called" in refused(at(server, "/good", "reward.example"), host)
    assert server.asked == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/broken", "answers with status 500"),
        ("/moved", "answers with status 302"),
        ("/html", "not that of a reward server"),
        ("/deep", "not that of a reward server"),
        ("/long", "longer than 65536 bytes"),
    ],
)
def test_another_answer_is_told_without_what_it_holds(server: Server, path: str, expected: str) -> None:
    assert expected in refused(at(server, path), f"127.0.0.1:{server.server_port}")


def test_one_that_does_not_answer_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert "could not be asked (ConnectError)" in refused(f"http://127.0.0.1:{port}", f"127.0.0.1:{port}")


def test_one_that_is_slow_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reward_servers, "TIME_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert "could not be asked (ReadTimeout)" in refused(f"http://127.0.0.1:{port}", f"127.0.0.1:{port}")


@pytest.mark.parametrize(
    "url", ["ftp://x.example", "x.example", "http://", "http://a:b", "file:///etc/passwd", "http:///x"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    assert "URL" in (said := refused(url, "x.example", "")) or "begins with http://" in said
