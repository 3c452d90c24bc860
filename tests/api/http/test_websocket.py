"""Tests of the limits of a websocket, with shortened times."""

import json
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from api.http import slow_readers, websocket
from tests.api.conftest import Service, create
from tests.api.http.test_bounded_protocol import connected
from tests.waiting import eventually

pytestmark = pytest.mark.sandbox
TEXT, CONTINUATION, CLOSE, PING, PONG = 1, 0, 8, 9, 10


def request(secret: str, method: str, path: str, body: bytes = b"", more: str = "") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n{more}"
    length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    return (head + length + "\r\n").encode("latin-1") + body


def websocket_head(secret: str, path: str = "/reward/default/leaving/ws", more: str = "") -> bytes:
    head = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    key = "" if "Sec-WebSocket-Key" in more else "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    return request(secret, "GET", path, more=head + key + more)


@contextmanager
def speaking(service: Service, secret: str, small: bool = False, grader: str = "exact") -> Iterator[socket.socket]:
    with connected(service, small) as connection:
        connection.sendall(websocket_head(secret, f"/reward/default/{grader}/ws"))
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += connection.recv(1)
        assert answer.startswith(b"HTTP/1.1 101"), answer
        yield connection


def frame(kind: int, data: bytes, is_last: bool = True, length: int | None = None) -> bytes:
    """A frame of a client. `length` is the announced length, if it is more."""
    return bytes([is_last << 7 | kind, 0xFF]) + struct.pack("!Q", length or len(data)) + bytes(4) + data


def asked(size: int) -> bytes:
    """A request for a reward, padded to `size` bytes."""
    turns = [{"role": "assistant", "content": "4" * (size - 57)}]
    return json.dumps({"id": 1, "turns": turns}).encode().ljust(size)


def exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += connection.recv(size - len(data)) or pytest.fail("the connection ended")
    return data


def next_frame(connection: socket.socket) -> tuple[int, bytes]:
    first, length = exactly(connection, 2)
    if length == 126:
        (length,) = struct.unpack("!H", exactly(connection, 2))
    return first & 15, exactly(connection, length)


def received(connection: socket.socket, kind: int) -> bytes:
    """The data of the next frame of the service, which must be of this kind."""
    found, data = next_frame(connection)
    assert found == kind, data
    return data


def held(service: Service) -> int:
    return service.services.memory.held


def wait_until_held(service: Service, least: int, most: int) -> None:
    eventually(lambda: least <= held(service) <= most)


@pytest.fixture(autouse=True)
def grader(client: httpx.Client) -> None:
    create(client)


@pytest.mark.parametrize("is_one_frame", [True, False])
def test_what_has_come_of_a_message_is_counted(service: Service, secret: str, is_one_frame: bool) -> None:
    message = asked(1_000_000)
    with speaking(service, secret) as connection:
        if is_one_frame:
            connection.sendall(frame(TEXT, message[:-1], length=len(message)))
            rest = message[-1:]
        else:
            connection.sendall(frame(TEXT, b"", is_last=False) + frame(CONTINUATION, message[:-1], is_last=False))
            rest = frame(CONTINUATION, message[-1:])
        wait_until_held(service, 999_000, 1_001_000)
        connection.sendall(rest)
        assert json.loads(received(connection, TEXT))["total_num_chunks"] == 1
        assert "reward" in json.loads(json.loads(received(connection, TEXT))["chunk"])
        wait_until_held(service, 0, 0)


def test_small_requests_that_wait_are_counted_with_their_objects(
    client: httpx.Client, service: Service, secret: str
) -> None:
    waits = "import time\nasync def grade(thread):\n    time.sleep(thread.completion() == 'wait')\n    return 1.0\n"
    create(client, "waits", waits)
    with speaking(service, secret, grader="waits") as connection:
        request = {"id": 1, "turns": [{"role": "assistant", "content": "wait"}]}
        connection.sendall(frame(TEXT, json.dumps(request).encode()) * 1000)
        wait_until_held(service, 200_000, 220_000)  # of which 70,000 are text
    wait_until_held(service, 0, 0)


def test_a_client_that_goes_away_holds_nothing(service: Service, secret: str) -> None:
    with speaking(service, secret) as connection:
        connection.sendall(frame(TEXT, b" " * 500_000, length=1_000_000))
        wait_until_held(service, 499_000, 501_000)
    wait_until_held(service, 0, 0)
    assert not service.services.memory._of_tenant


def test_messages_of_a_key_wait_for_memory(service: Service, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.services.memory, "_most", 2_000_000)
    with ExitStack() as stack:
        *others, wanted = [stack.enter_context(speaking(service, secret)) for _ in range(9)]
        for connection in (*others, wanted):
            # An ordinary close can wait in the client's kernel behind data for which the service has no room.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for connection in others:
            connection.sendall(frame(TEXT, b" " * 999_999, length=1_000_000))
        time.sleep(0.5)
        assert 2_000_000 <= held(service) < 2_000_000 + 8 * 300_000  # one piece of each, as they arrived together
        wanted.sendall(frame(TEXT, asked(200_000)))
        stack.pop_all().close()
    wait_until_held(service, 0, 0)


def test_what_waited_for_memory_is_answered(service: Service, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with speaking(service, secret) as connection:
        monkeypatch.setattr(service.services.memory, "_most", 100_000)
        connection.sendall(frame(TEXT, asked(1_500_000)))
        time.sleep(0.5)
        assert 0 < held(service) < 1_000_000
        monkeypatch.undo()
        assert json.loads(received(connection, TEXT))["total_num_chunks"] == 1


@pytest.mark.parametrize("start", [b"\x81", frame(TEXT, b"{", length=100), frame(TEXT, b"", is_last=False)])
def test_a_message_that_does_not_end_is_ended(
    service: Service, secret: str, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    monkeypatch.setattr(websocket, "MESSAGE_S", 0.4)
    with speaking(service, secret) as connection:
        connection.sendall(start)
        assert b"was not complete within" in received(connection, CLOSE)
        assert connection.recv(1) == b""


def test_messages_in_many_small_parts_take_no_more_than_their_bytes(service: Service, secret: str) -> None:
    part = bytes([CONTINUATION, 0x81, 0, 0, 0, 0, 32])
    with speaking(service, secret) as connection:
        connection.sendall(frame(TEXT, b"", is_last=False) + part * 9000)
        wait_until_held(service, 9000, 9000)
        (waiting,) = (one for one in service.serving.server_state.connections if hasattr(one, "frames"))
        assert [type(one) for one in waiting.frames] == [bytearray]
        connection.sendall(frame(CONTINUATION, asked(1000)))
        assert json.loads(received(connection, TEXT))["total_num_chunks"] == 1


PINGS = (b"\x89\xfd" + bytes(4) + b"p" * 125) * 500


def flood(connection: socket.socket, seconds: float, sent: int = 0) -> int:
    """Sends pings and reads nothing. Returns the number of bytes sent so far."""
    ends = time.monotonic() + seconds
    connection.settimeout(0.2)
    while time.monotonic() < ends:
        try:
            sent += connection.send(PINGS[sent % len(PINGS) :])
        except TimeoutError:
            continue
    return sent


def drain(connection: socket.socket, seconds: float) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        try:
            connection.recv(1_000_000)
        except TimeoutError:
            continue


def test_who_does_not_read_gets_no_pongs(service: Service, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "FRAMES", 1_000_000)
    with speaking(service, secret, small=True) as connection:
        sent = flood(connection, 3)
        (unread,) = (one for one in service.serving.server_state.connections if hasattr(one, "frames"))
        assert sent > 2_000_000
        assert unread.transport.get_write_buffer_size() < 500_000
        drain(connection, 1)
        assert flood(connection, 1, sent) > sent  # sending continues after the client has read


def test_frames_without_a_message_are_bounded(service: Service, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "FRAMES", 100)
    with speaking(service, secret) as connection:
        connection.sendall((b"\x89\x80" + bytes(4)) * 101)
        for _ in range(101):
            assert received(connection, PONG) == b""
        assert b"100 frames" in received(connection, CLOSE)


def test_messages_after_our_close_are_bounded(service: Service, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "FRAMES", 100)
    with speaking(service, secret) as connection:
        connection.sendall(frame(TEXT, b"no request"))
        assert b"JSON" in received(connection, CLOSE)
        began = time.monotonic()
        connection.sendall(frame(TEXT, b"a") * 101)
        assert connection.recv(1) == b""
        assert time.monotonic() - began < 5  # the service waits longer for a close frame


def test_who_does_not_read_is_ended(service: Service, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_readers, "READ_S", 0.5)
    with speaking(service, secret, small=True) as connection, pytest.raises(ConnectionError):
        flood(connection, 10)


def test_a_client_is_not_ended_while_it_waits_for_answers(
    service: Service, secret: str, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service does not read its pongs then, because it reads nothing."""
    source = "import time\nasync def grade(thread):\n    time.sleep(0.15 if thread.metadata else 0)\n    return 1.0\n"
    client.put("/v1/projects/default/graders/exact", json={"source": source}).raise_for_status()
    monkeypatch.setattr(service.serving.config, "ws_ping_interval", 1.0)
    monkeypatch.setattr(service.serving.config, "ws_ping_timeout", 1.0)
    with speaking(service, secret) as connection:
        turns = [{"role": "assistant", "content": "x"}]
        for number in range(120):
            message = json.dumps({"id": number, "turns": turns, "metadata": {"slow": True}}).encode()
            connection.sendall(frame(TEXT, message))
            time.sleep(0.002)
        answered = 0
        while answered < 240:
            kind, data = next_frame(connection)
            assert kind != CLOSE, data
            if kind == PING:
                connection.sendall(b"\x8a" + bytes([0x80 | len(data)]) + bytes(4) + data)
            answered += kind == TEXT
