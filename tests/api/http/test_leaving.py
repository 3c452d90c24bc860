"""Tests that clients that leave at any moment cause no traceback in the log. All tests use real sockets."""

import json
import logging
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.api.conftest import GOOD, PROJECT, Service, create, problem
from tests.api.http.test_bounded_protocol import answered, connected, rest
from tests.api.http.test_websocket import CLOSE, TEXT, asked, frame, received, request, speaking, websocket_head
from tests.waiting import eventually

pytestmark = pytest.mark.sandbox
SLOW = "import time\nasync def grade(thread):\n    time.sleep(0.3)\n    return 1.0\n"
LINES = 30  # the limit for log lines of all levels
FUZZ_S = 4.0


@pytest.fixture
def no_traceback(service: Service, caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Waits until all requests have ended. Fails if a traceback was logged."""
    caplog.set_level(logging.INFO)
    yield caplog
    state = service.serving.server_state
    ends = time.monotonic() + 20
    while (state.connections or state.tasks) and time.monotonic() < ends:
        time.sleep(0.02)
    told = [record for when in ("setup", "call") for record in caplog.get_records(when)]
    with_traceback = [record for record in told if record.exc_info and record.exc_info[0]]
    assert not with_traceback, [(record.name, record.exc_info) for record in with_traceback]
    assert not state.connections, "connections are counted that are gone"


@pytest.fixture(autouse=True)
def graders(no_traceback: pytest.LogCaptureFixture, client: httpx.Client) -> None:
    create(client)
    create(client, "leaving", GOOD)  # another key, because metrics count by key in all tests
    create(client, "slow", SLOW)


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def threads(count: int) -> bytes:
    messages = [{"role": "assistant", "content": "4" * 500}]
    return json.dumps({"threads": [{"messages": messages}] * count}).encode()


def test_who_leaves_while_requests_sent_ahead_wait(service: Service, secret: str) -> None:
    for _ in range(5):
        with connected(service) as connection:
            score = request(secret, "POST", f"{PROJECT}/graders/slow/score", threads(1))
            connection.sendall(score + request(secret, "GET", "/openapi.json") * 3)
            time.sleep(0.1)
            reset(connection)


def test_what_is_wanted_no_more_is_not_graded_on_behind_requests_sent_ahead(service: Service, secret: str) -> None:
    with connected(service) as connection:
        score = request(secret, "POST", f"{PROJECT}/graders/slow/score", threads(1000))
        connection.sendall(score + request(secret, "GET", "/healthz"))
        time.sleep(0.5)
        reset(connection)
    eventually(lambda: not service.serving.server_state.tasks, 10)  # to grade all threads would take 300 s


@pytest.mark.parametrize("data", [b"\xff\xfe", b"caf\xc3"])
def test_text_that_is_no_utf_8_ends_a_websocket(service: Service, secret: str, data: bytes) -> None:
    with speaking(service, secret) as connection:
        connection.sendall(frame(TEXT, data))
        told = received(connection, CLOSE)
        assert (struct.unpack("!H", told[:2])[0], told[2:]) == (1007, b"a text message is not UTF-8: send it as UTF-8")


@pytest.mark.parametrize(
    "more", ["X-Any: \xff\r\n", "Sec-WebSocket-Protocol: \xff,,\r\n", "Sec-WebSocket-Key: \xff\xfe\r\n"]
)
def test_a_websockets_head_that_is_no_ascii_is_refused(service: Service, secret: str, more: str) -> None:
    answer = answered(service, websocket_head(secret, more=more))
    assert answer.startswith(b"HTTP/1.1 400") and b"urn:gradebox:problem:invalid-request" in answer, answer


def test_frames_before_the_handshake_is_answered(service: Service, secret: str) -> None:
    for _ in range(10):
        with connected(service) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(websocket_head(secret))
            time.sleep(0.0005)  # a separate segment, before the API key is looked up
            connection.sendall(b"\xff" * 100)
            connection.recv(65_536)


@pytest.mark.parametrize("scheme", ["Basic \xff\xfe", "Basic =", "Bearer \xff", "Bearer gbx_\xff_\xff"])
def test_keys_that_are_no_ascii_are_wrong_keys(service: Service, scheme: str) -> None:
    with connected(service) as connection:
        connection.sendall(f"GET /info HTTP/1.1\r\nHost: x\r\nAuthorization: {scheme}\r\n\r\n".encode("latin-1"))
        assert connection.recv(100).startswith(b"HTTP/1.1 401")


def test_a_batch_is_deleted_while_it_is_read(service: Service, client: httpx.Client, secret: str, worker: None) -> None:
    text = {"messages": [{"role": "assistant", "content": "x"}], "id": "i" * 200}
    create(client, "prints", "async def grade(thread):\n    print('x' * 4000)\n    return 1.0\n")
    body = {"graders": [{"key": "prints"}], "threads": [text] * 2000}
    batch = client.post(f"{PROJECT}/batches", json=body).json()
    while client.get(f"{PROJECT}/batches/{batch['id']}?wait_s=10").json()["state"] != "finished":
        pass
    with connected(service, small=True) as connection:
        connection.sendall(request(secret, "GET", f"{PROJECT}/batches/{batch['id']}/outcomes"))
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        client.delete(f"{PROJECT}/batches/{batch['id']}")
        assert not rest(connection).endswith(b"0\r\n\r\n")
    problem(client.get(f"{PROJECT}/batches/{batch['id']}/outcomes"), 404, "not-found")


def test_strangers_leave_few_lines(service: Service, no_traceback: pytest.LogCaptureFixture) -> None:
    for _ in range(LINES):
        for told in (b"no HTTP\r\n\r\n", request("gbx_a_b", "GET", PROJECT), websocket_head("gbx_a_b")):
            with connected(service) as connection:
                connection.sendall(told)
                connection.recv(100)
    # pytest adds handlers to the log of requests, which the service leaves without any.
    lines = [record.getMessage() for record in no_traceback.records if record.name != "uvicorn.access"]
    assert len(lines) < LINES, lines


def test_whatever_is_sent_by_whoever_leaves(service: Service, client: httpx.Client, secret: str, worker: None) -> None:
    """Sends requests and frames (whole, cut, changed, several ahead) on connections that end in every way."""
    batch = client.post(f"{PROJECT}/batches", json={"graders": [{"key": "leaving"}], **json.loads(threads(50))}).json()
    requests = _requests(secret, batch["id"])
    ends = time.monotonic() + FUZZ_S
    args = (service, secret, requests, ends)
    attackers = [threading.Thread(target=_attack, args=(*args, random.Random(seed))) for seed in range(8)]
    for attacker in attackers:
        attacker.start()
    for attacker in attackers:
        attacker.join()
    assert client.get("/healthz").status_code == 200
    batches = service.store.batches
    # The worker must finish these batches before the next test.
    eventually(lambda: all(one.finished_at is not None for one in batches.newest("default", 200)), 60)
    time.sleep(6)  # the worker reports their metrics every few seconds
    eventually(lambda: not service.services.memory.held)


def _requests(secret: str, batch_id: str) -> list[bytes]:
    batch = f"{PROJECT}/batches/{batch_id}"
    form = b'--b\r\nContent-Disposition: form-data; name="\xff\xfe"; filename="\xff"\r\n\r\n\xff\r\n--b--\r\n'
    as_form = request(secret, "POST", f"{PROJECT}/graders", form)
    lines = request(secret, "POST", f"{PROJECT}/batches?grader=leaving", b"{}\n" * 500)
    return [
        *(request(secret, "GET", path) for path in ("/healthz", "/openapi.json", f"{PROJECT}/graders", "/metrics")),
        *(request(secret, "GET", batch + more) for more in ("?wait_s=2", "/events", "/outcomes", "?wait_s=%ff")),
        *(request(secret, "POST", f"{PROJECT}/graders/{key}/score", threads(20)) for key in ("slow", "leaving")),
        *(request(secret, "GET", f"{PROJECT}/{name}") for name in ("batches/%ff%00", "graders/%ed%a0%80", "\xff")),
        *(request(secret, "GET", "/healthz", more=f"{name}: \xff\r\n") for name in ("traceparent", "Cookie", "X-\xff")),
        *(request(secret, "GET", "/metrics").replace(b"Host: x", host) for host in (b"Host: [\xff", b"Host: [z]:9x")),
        request(secret, "HEAD", f"{batch}/events"),
        request(secret, "POST", f"{PROJECT}/validate", json.dumps({"source": SLOW}).encode()),
        request(secret, "POST", f"{PROJECT}/graders/leaving/score", threads(5), "Expect: 100-continue\r\n"),
        request(secret, "POST", "/api/graphql", b'{"query":"{ \\ud800 __typename }"}'),
        request(secret, "POST", "/reward/default/leaving/score", b'{"turns":[],"metadata":"\\ud800"}'),
        request(secret, "PATCH", f"{PROJECT}/graders/leaving", b'{"name":"\xff"}'),
        lines.replace(b"application/json", b"application/x-ndjson"),
        lines.replace(b"application/json", b"application/x-ndjson").replace(b"Content-Length: 1500", b"A: b"),
        lines.replace(b"Content-Length: 1500", b"Transfer-Encoding: chunked"),
        as_form.replace(b"application/json", b"multipart/form-data; boundary=b"),
        as_form.replace(b"application/json", b"multipart/form-data; boundary=\xff"),
        b"GET \xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
    ]


def _frames() -> list[bytes]:
    return [
        *(frame(TEXT, data) for data in (b"\xff", b"null", b"[" * 10_000, asked(500), asked(500), asked(500))),
        *(frame(CLOSE, data) for data in (b"", b"\3", struct.pack("!H", 1005), struct.pack("!H", 1000) + b"\xff")),
        *(frame(kind, b"x" * size) for kind in (0, 2, 3, 9, 10, 11) for size in (0, 125, 126)),
        frame(TEXT, b"\xc3", is_last=False) + frame(0, b"("),
        frame(TEXT, b"x", length=1 << 62),
        b"\xff" * 200,
    ]


def _attack(service: Service, secret: str, requests: list[bytes], ends: float, choose: random.Random) -> None:
    heads = [websocket_head(secret, path) for path in ("/reward/default/leaving/ws", "/reward/default/slow/ws", "/x")]
    heads += [websocket_head(secret, more=more) for more in ("X: \xff\r\n", "Sec-WebSocket-Protocol: ,,\r\n")]
    frames = _frames()
    while time.monotonic() < ends:
        with connected(service, small=choose.random() < 0.3) as connection:
            try:
                if choose.random() < 0.6:
                    data = b"".join(choose.choices(requests, k=choose.choice([1, 1, 2, 16])))
                else:
                    connection.sendall(choose.choice(heads))
                    if choose.random() < 0.7:
                        connection.recv(65_536)
                    data = b"".join(choose.choices(frames, k=choose.choice([0, 1, 3, 10])))
                if choose.random() < 0.3:
                    data = data[: choose.randrange(len(data) + 1)]
                if choose.random() < 0.3 and data:
                    place = choose.randrange(len(data))
                    data = data[:place] + choose.randbytes(1) + data[place + 1 :]
                connection.sendall(data)
                time.sleep(choose.choice([0, 0.002, 0.02, 0.1, 0.4]))
                choose.choice(_ENDS)(connection)
            except OSError:
                pass  # the service closed it first


def _half_close(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_WR)
    connection.settimeout(0.3)
    connection.recv(1000)


_ENDS: tuple[Callable[[socket.socket], None], ...] = (reset, socket.socket.close, _half_close)
