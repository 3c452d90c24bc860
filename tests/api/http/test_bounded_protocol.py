"""Tests of the limits of a connection, with shortened times."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPResponse

import httpx
import msgspec
import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.http import bounded_protocol, slow_readers
from api.http.bounded_protocol import BoundedProtocol
from api.intake import bodies
from tests.api.conftest import PROJECT, Service, problem
from tests.storage.making import accept, claim, finish, outcomes_of, wanted

HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


@contextmanager
def connected(service: Service, small: bool = False) -> Iterator[socket.socket]:
    url = httpx.URL(service.url)
    with socket.socket() as connection:
        if small:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect((url.host, url.port or 80))
        yield connection


def rest(connection: socket.socket) -> bytes:
    """All bytes until the service closes the connection."""
    answer = b""
    try:
        while block := connection.recv(65536):
            answer += block
    except ConnectionError:
        pass
    return answer


def answered(service: Service, data: bytes) -> bytes:
    """All bytes that the service sends to a connection with this data, until it closes the connection."""
    with connected(service) as connection:
        connection.sendall(data)
        return rest(connection)


def trickle(connection: socket.socket, data: bytes, seconds: float) -> float:
    """Sends `data` every 20 ms. Returns the seconds until the service closed the connection."""
    began = time.monotonic()
    try:
        while time.monotonic() < began + seconds:
            connection.sendall(data)
            time.sleep(0.02)
    except OSError:
        return time.monotonic() - began
    raise AssertionError(f"the service took {seconds} s of it")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEAD_S", "LINGER_S"):
        monkeypatch.setattr(bounded_protocol, name, 0.4)
    monkeypatch.setattr(slow_readers, "READ_S", 0.4)
    monkeypatch.setattr(bodies, "SLOW_S", 0.4)


def test_a_head_without_end_is_cut_off(service: Service) -> None:
    with connected(service) as connection:
        try:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Long: ")
            for _ in range(100):
                connection.sendall(b"x" * 65_536)
        except ConnectionError:
            pass
        answer = rest(connection)
        assert not answer or answer.startswith(b"HTTP/1.1 431")


def test_a_head_of_usual_length_is_taken(service: Service) -> None:
    assert httpx.get(service.url + "/healthz", headers={"X-Long": "x" * 8000}).status_code == 200


def test_trailers_without_end_are_cut_off(service: Service, client: httpx.Client) -> None:
    key = client.headers["Authorization"].encode()
    with connected(service) as connection:
        connection.sendall(CHUNKED[:-2] + b"Authorization: " + key)
        connection.sendall(b"\r\nContent-Type: application/json\r\n\r\n2\r\n{}\r\n0\r\n")
        with pytest.raises(ConnectionError):
            for number in range(20_000):
                connection.sendall(b"X-%d: %s\r\n" % (number, b"x" * 1000))


@pytest.mark.parametrize("opening", [b"", b"GET / HT", HEAD, b"\r\n"])
def test_a_head_that_does_not_come_is_not_waited_for(service: Service, hasty: None, opening: bytes) -> None:
    began = time.monotonic()
    assert answered(service, opening) == b""
    assert 0.2 < time.monotonic() - began < 5


@pytest.mark.parametrize("before", [b"", HEAD + b"\r\n"])
@pytest.mark.parametrize("byte", [b"X", b"\r\n"])
def test_a_head_that_trickles_is_ended(service: Service, hasty: None, before: bytes, byte: bytes) -> None:
    with connected(service) as connection:
        connection.sendall(before + HEAD[:10])
        assert trickle(connection, byte, 10) < 5


def test_line_ends_between_requests_keep_no_connection(service: Service, hasty: None) -> None:
    with connected(service) as connection:
        connection.sendall(HEAD + b"\r\n")
        answer = connection.recv(65536)
        while not answer.endswith(b"}"):  # the body may come after the head
            answer += connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 200")
        connection.sendall(b"\r\n")
        assert rest(connection) == b""


def test_a_body_that_trickles_is_ended(service: Service, client: httpx.Client, hasty: None) -> None:
    def trickling() -> Iterator[bytes]:
        for _ in range(200):
            yield b" "
            time.sleep(0.02)

    began = time.monotonic()
    headers = {"Content-Type": "application/json"}
    response = client.post(f"{PROJECT}/validate", content=trickling(), headers=headers)
    detail = problem(response, 408, "timeout")
    assert "less than 4096 bytes" in detail
    assert "nothing was kept: collect all of it first, such as in a file" in detail
    assert time.monotonic() - began < 8


def test_a_slow_body_is_taken(client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SLOW_S", 0.4)

    def slow() -> Iterator[bytes]:
        yield b'{"source": "'
        for _ in range(10):
            yield b"#" * 4096
            time.sleep(0.15)
        yield b'"}'

    response = client.post(f"{PROJECT}/validate", content=slow(), headers={"Content-Type": "application/json"})
    assert response.status_code == 200


def test_what_comes_of_a_request_that_is_answered_is_not_taken_for_ever(service: Service, hasty: None) -> None:
    with connected(service) as connection:
        connection.sendall(b"POST /v1/projects HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000000\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 401")
        assert trickle(connection, b"x", 10) < 5


def test_a_request_that_is_answered_early_is_followed_by_the_next(service: Service) -> None:
    def status() -> int:
        response = HTTPResponse(connection)
        response.begin()
        response.read()  # it may come in parts
        return response.status

    with connected(service) as connection:
        connection.sendall(b"POST /v1/projects HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
        assert status() == 401
        connection.sendall(b"0123456789" + HEAD + b"\r\n")
        assert status() == 200


CHUNKED = b"POST /v1/projects HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_a_request_in_chunks_that_is_answered_early_is_the_last(service: Service) -> None:
    answer = answered(service, CHUNKED + b"1\r\nx\r\n")  # nobody parses the chunks that may follow
    assert answer.startswith(b"HTTP/1.1 401") and b"connection: close" in answer


def test_a_request_in_chunks_that_has_come_is_followed_by_the_next(service: Service) -> None:
    with connected(service) as connection:
        connection.sendall(CHUNKED + b"1\r\nx\r\n0\r\n\r\n")
        answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 401")
        assert b"connection: close" not in answer
        connection.sendall(HEAD + b"Connection: close\r\n\r\n")
        assert b"HTTP/1.1 200" in rest(connection)


def test_a_stop_ends_the_connection_of_a_request_in_chunks(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: BoundedProtocol, body: bytes) -> None:
        self.shutdown()
        take(self, body)

    take = HttpToolsProtocol.on_body
    monkeypatch.setattr(HttpToolsProtocol, "on_body", stop)
    assert b"connection: close" in answered(service, CHUNKED + b"1\r\nx\r\n0\r\n\r\n")


def test_tiny_chunks_are_handed_on_together(service: Service, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def take(self: HttpToolsProtocol, body: bytes) -> None:
        taken.append(body)
        on_body(self, body)

    taken: list[bytes] = []
    on_body = HttpToolsProtocol.on_body
    monkeypatch.setattr(HttpToolsProtocol, "on_body", take)
    head = f"Host: x\r\nAuthorization: Bearer {secret}\r\nContent-Type: text/x-python\r\nConnection: close\r\n"
    source = b"async def grade(thread): return 1.0" + b" " * 10_000
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in source)
    head = f"POST {PROJECT}/validate HTTP/1.1\r\nTransfer-Encoding: chunked\r\n{head}\r\n"
    assert b'"valid":true' in answered(service, head.encode() + chunks + b"0\r\n\r\n")
    assert b"".join(taken) == source
    assert len(taken) < 100


def test_requests_that_are_sent_ahead_are_answered_in_order(service: Service) -> None:
    last = b"GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert statuses(answered(service, (HEAD + b"\r\n") * 10 + last)) == [b"200"] * 10 + [b"404"]


@pytest.mark.parametrize("method", ["plain", "offering another protocol"])
def test_requests_without_end_that_are_sent_ahead_are_not_kept(service: Service, method: str) -> None:
    one, number = (HEAD + b"\r\n", 5000) if method == "plain" else (offering("GET", "/healthz"), 2000)
    assert answered(service, one * number).count(b"HTTP/1.1 200") < 50


@pytest.mark.parametrize("chunk", [None, b"x\r\n{}\r\n0\r\n\r\n", b"1\r\n{\r\n-1\r\n}\r\n", b"2\n{}\n0\n\n"])
def test_what_is_no_http_is_told_so(service: Service, secret: str, chunk: bytes | None) -> None:
    head = f"POST {PROJECT}/validate HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n"
    head += "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = answered(service, b"SSH-2.0-OpenSSH_9.2\r\n\r\n" if chunk is None else head.encode() + chunk)
    assert answer.startswith(b"HTTP/1.1 400") and answer.count(b"HTTP/1.1") == 1
    assert b"urn:gradebox:problem:invalid-request" in answer


def long_outcomes(service: Service) -> str:
    """Creates a batch with 40 MB of outcomes."""
    store = service.store
    batch = accept(store, 10_000, wanted(store, "exact"))
    leases = [claim(store) for _ in range(10)]  # all at once: the worker of other tests looks for work now and then
    for lease in leases:
        long = [msgspec.structs.replace(outcome, reason="x" * 4000) for outcome in outcomes_of(store, lease)]
        assert finish(store, lease, long)
    return batch


def ask_for(connection: socket.socket, client: httpx.Client, path: str) -> None:
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {client.headers['Authorization']}\r\n\r\n"
    connection.sendall(head.encode())


def test_a_reader_that_stops_is_ended(service: Service, client: httpx.Client, hasty: None) -> None:
    batch = long_outcomes(service)
    with connected(service, small=True) as connection:
        ask_for(connection, client, f"{PROJECT}/batches/{batch}/outcomes")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        time.sleep(2)
        assert len(rest(connection)) < 20_000_000  # the system's buffers


def test_a_slow_reader_is_not_ended(service: Service, client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_readers, "READ_S", 5.0)  # a busy machine may stop the reader for a while
    batch = long_outcomes(service)
    with connected(service, small=True) as connection:
        ask_for(connection, client, f"{PROJECT}/batches/{batch}/outcomes")
        began = time.monotonic()
        while time.monotonic() < began + slow_readers.READ_S + 2:
            assert connection.recv(1_000_000) != b""
            time.sleep(0.005)


def test_many_readers_that_stop_stand_in_nobodys_way(service: Service, client: httpx.Client) -> None:
    batch = long_outcomes(service)
    path = f"{PROJECT}/batches/{batch}/outcomes"
    readers: list[socket.socket] = []
    for _ in range(60):  # more than the threads of the service
        connection = socket.create_connection((httpx.URL(service.url).host, httpx.URL(service.url).port or 80))
        ask_for(connection, client, path)
        readers.append(connection)
    began = time.monotonic()
    assert client.get(f"{PROJECT}/graders").status_code == 200
    assert client.get(path + "?after=9990").text.count("\n") == 9
    assert time.monotonic() - began < 10
    for connection in readers:
        connection.close()


def assert_it_makes_room_for_one_more(service: Service, first: socket.socket) -> None:
    time.sleep(0.1)
    began = time.monotonic()
    with connected(service) as last:
        assert rest(first) == b""
        last.sendall(HEAD + b"\r\n")
        assert last.recv(65536).startswith(b"HTTP/1.1 200")
    assert time.monotonic() - began < 10


@pytest.fixture
def few(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits the service to three connections, after earlier connections are closed."""
    while service.serving.server_state.connections:
        time.sleep(0.02)
    for kind in BoundedProtocol.__subclasses__():
        monkeypatch.setattr(kind, "most", 3)


def test_one_connection_too_many_ends_the_one_that_has_waited_longest(service: Service, few: None) -> None:
    with connected(service) as first:
        time.sleep(0.1)  # connections of the same millisecond have waited equally long
        with connected(service), connected(service):
            assert_it_makes_room_for_one_more(service, first)


def test_a_connection_waits_since_its_last_answer(service: Service, few: None) -> None:
    with connected(service) as first, connected(service) as second, connected(service):
        first.sendall(HEAD + b"\r\n")
        assert first.recv(65536).startswith(b"HTTP/1.1 200")
        assert_it_makes_room_for_one_more(service, second)


def test_making_room_looks_at_few_connections(service: Service, few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_idle(self: BoundedProtocol) -> bool:
        looks.append(self)
        return bool(idle.__get__(self))

    looks: list[BoundedProtocol] = []
    idle = vars(BoundedProtocol)["idle"]
    monkeypatch.setattr(BoundedProtocol, "idle", property(is_idle))
    for kind in BoundedProtocol.__subclasses__():
        monkeypatch.setattr(kind, "most", 30)
    with ExitStack() as opened:
        connections = [opened.enter_context(connected(service)) for _ in range(90)]
        for ended in connections[:60]:
            assert rest(ended) == b""
        assert len(looks) < 200


def test_connections_that_are_at_work_are_not_ended(service: Service, secret: str, few: None) -> None:
    key = f"Bearer {secret}".encode()
    upload = b"POST /v1/projects HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\nContent-Type: application/json\r\n"
    with connected(service) as one, connected(service) as two, connected(service) as three:
        for connection in (one, two, three):
            connection.sendall(upload + b"Authorization: " + key + b"\r\n\r\n")
        time.sleep(0.3)
        with connected(service) as last:
            answer = rest(last)
            assert answer.startswith(b"HTTP/1.1 503")
            assert b"retry-after: 1" in answer
        one.sendall(b'{"key":"a"}')
        assert one.recv(65536).startswith(b"HTTP/1.1 201")


def statuses(answer: bytes) -> list[bytes]:
    return [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]]


def offering(method: str, path: str, *more: str, upgrade: str = "h2c") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: Upgrade, HTTP2-Settings", f"Upgrade: {upgrade}"]
    return "\r\n".join([*lines, "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA", *more, "", ""]).encode()


@pytest.mark.parametrize("pause", [0, 0.1])
def test_the_body_of_a_request_that_offers_a_protocol_is_its_body(service: Service, secret: str, pause: float) -> None:
    """Java's client offers HTTP/2 with its first request. A body may look like requests."""
    body = b'{"key": "java", "name": "Java"}'
    head = offering(
        "POST", "/v1/projects", f"Authorization: Bearer {secret}", "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )  # fmt: skip
    with connected(service) as connection:
        for data in (head, body, HEAD + b"Connection: close\r\n\r\n"):
            connection.sendall(data)
            time.sleep(pause)
        answer = rest(connection)
    assert b'"key":"java"' in answer
    assert statuses(answer) == [b"201", b"200"]


def test_nothing_in_a_body_is_taken_for_a_request(service: Service) -> None:
    smuggled = HEAD + b"\r\n"
    with connected(service) as connection:
        connection.sendall(offering("POST", "/v1/projects", f"Content-Length: {len(smuggled)}"))
        time.sleep(0.1)
        connection.sendall(smuggled + HEAD.replace(b"healthz", b"nowhere") + b"Connection: close\r\n\r\n")
        answer = rest(connection)
    assert statuses(answer) == [b"401", b"404"]


def test_an_offer_keeps_what_else_the_head_says(service: Service) -> None:
    assert statuses(answered(service, offering("GET", "/healthz", "Connection: close") + HEAD + b"\r\n")) == [b"200"]
    with connected(service) as connection:
        for byte in offering("GET", "/nowhere", "X: y", "Connection: close"):
            connection.sendall(bytes([byte]))
        assert rest(connection).startswith(b"HTTP/1.1 404")


def test_several_offers_may_be_sent_ahead(service: Service) -> None:
    ahead = offering("GET", "/healthz") + offering("POST", "/v1/projects", "Content-Length: 5") + b"GET /"
    answer = answered(service, ahead + offering("GET", "/nowhere", "Connection: close"))
    assert statuses(answer) == [b"200", b"401", b"404"]


def test_this_is_no_proxy(service: Service) -> None:
    asked = b"CONNECT example.org:80 HTTP/1.1\r\nHost: example.org\r\n\r\n" + HEAD + b"\r\n"
    assert statuses(answered(service, asked)) == [b"400"]


@pytest.mark.parametrize(
    "head",
    [
        b"POST /x HTTP/1.1\r\nHost: x\r\n",
        b"GET /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n",
        b"GET /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n",
        b"GET /%s HTTP/1.1\r\nHost: x\r\n" % (b"x" * 9000),
        b"GET /x HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(200)),
    ],
)
def test_a_handshake_that_is_none_is_answered_and_ended(service: Service, head: bytes) -> None:
    answer = answered(service, head + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400")
    assert not [one for one in service.serving.server_state.connections if not isinstance(one, BoundedProtocol)]
