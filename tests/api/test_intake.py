"""Long bodies, which a thread reads from the connection beside the event loop."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from api import intake
from api.intake import Intake
from tests.api.conftest import Service, create
from tests.api.test_batches import LINES, URL, left, wait_until

pytestmark = pytest.mark.sandbox
NEXT = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def rushed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each rush took."""
    found: list[int] = []
    rush = Intake.rush

    async def noting(self: Intake, take: intake.Take) -> int:
        found.append(await rush(self, take))
        return found[-1]

    monkeypatch.setattr(Intake, "rush", noting)
    return found


def body(size: int) -> bytes:
    """So many bytes of lines, each another."""
    lines = b"".join(b'{"completion": "%d %s"}\n' % (number, b"x" * 900) for number in range(size // 925 + 1))
    return lines[:size]


def head(secret: str, length: int, *more: str) -> bytes:
    lines = [f"POST {URL}?grader=exact HTTP/1.1", "Host: x", f"Authorization: Bearer {secret}"]
    lines += ["Content-Type: application/x-ndjson", f"Content-Length: {length}", *more, "", ""]
    return "\r\n".join(lines).encode()


@contextmanager
def connected(service: Service) -> Iterator[socket.socket]:
    url = httpx.URL(service.url)
    with socket.create_connection((url.host, url.port or 80), timeout=30) as connection:
        yield connection


def answers(connection: socket.socket, count: int) -> list[bytes]:
    """The status and the body of so many answers."""
    found, file = [], connection.makefile("rb")
    for _ in range(count):
        status, length = file.readline().split()[1], 0
        while (line := file.readline().strip().lower()) != b"":
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        found.append(status + b" " + file.read(length))
    return found


def kept(service: Service) -> list[bytes]:
    """The payloads in the spool."""
    return [file.read_bytes() for file in (service.settings.data_dir / "spool" / "payloads").iterdir()]


def test_a_long_body_is_kept_to_the_byte(client: httpx.Client, service: Service, rushed: list[int]) -> None:
    create(client)
    content = body(20_000_000)
    assert client.post(f"{URL}?grader=exact", content=content, headers=LINES).status_code == 202
    assert kept(service) == [content]
    assert sum(rushed) > 18_000_000


def test_a_body_longer_than_one_rush_is_kept(
    client: httpx.Client, service: Service, rushed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "MOST_BYTES", 1_000_000)
    create(client)
    content = body(5_000_001)
    assert client.post(f"{URL}?grader=exact", content=content, headers=LINES).status_code == 202
    assert kept(service) == [content]
    assert len([size for size in rushed if size >= 1_000_000]) >= 3


def test_a_request_sent_right_behind_it_is_not_part_of_it(
    client: httpx.Client, service: Service, secret: str, rushed: list[int]
) -> None:
    create(client)
    content = body(6_000_000)
    with connected(service) as connection:
        connection.sendall(head(secret, len(content)) + content + NEXT + head(secret, len(content)) + content + NEXT)
        assert [answer[:3] for answer in answers(connection, 4)] == [b"202", b"200", b"202", b"200"]
    assert kept(service) == [content] * 2
    assert sum(rushed) > 6_000_000


def test_what_is_refused_half_way_does_not_spoil_the_connection(
    client: httpx.Client, service: Service, secret: str, rushed: list[int]
) -> None:
    create(client)
    content = body(3_000_000) + b'{"completion": "' + b"x" * 6_000_000 + body(2_000_000)
    with connected(service) as connection:
        connection.sendall(head(secret, len(content)) + content + NEXT)
        refused, after = answers(connection, 2)
    assert refused.startswith(b"413")
    assert b"is longer than 4194304 bytes" in refused
    assert after.startswith(b"200")
    assert left(client, service) == []


def test_a_body_that_comes_in_bursts_is_kept(
    client: httpx.Client, service: Service, secret: str, rushed: list[int]
) -> None:
    create(client)
    content = body(4_000_000)
    with connected(service) as connection:
        connection.sendall(head(secret, len(content)))
        for start in range(0, len(content), 700_000):
            connection.sendall(content[start : start + 700_000])
            time.sleep(0.1)
        assert answers(connection, 1)[0].startswith(b"202")
    assert kept(service) == [content]
    assert 0 < sum(rushed) < len(content)


def test_a_connection_that_breaks_in_a_rush_leaves_nothing(
    client: httpx.Client, service: Service, secret: str, rushed: list[int]
) -> None:
    create(client)
    with connected(service) as connection:
        connection.sendall(head(secret, 50_000_000) + body(9_000_000))
        wait_until(lambda: left(client, service) != [])
    wait_until(lambda: left(client, service) == [])
    assert sum(rushed) > 0


def test_who_asks_before_sending_is_told_to_go_on(client: httpx.Client, service: Service, secret: str) -> None:
    create(client)
    content = body(3_000_000)
    with connected(service) as connection:
        connection.sendall(head(secret, len(content), "Expect: 100-continue"))
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(content)
        assert answers(connection, 1)[0].startswith(b"202")
    assert kept(service) == [content]


def test_more_at_once_than_there_are_threads_for_them(
    client: httpx.Client, service: Service, rushed: list[int]
) -> None:
    create(client)
    content = body(4_000_000)

    def send(_: int) -> int:
        return client.post(f"{URL}?grader=exact", content=content, headers=LINES).status_code

    with ThreadPoolExecutor(3 * intake.RUSHES) as senders:
        assert list(senders.map(send, range(3 * intake.RUSHES))) == [202] * 3 * intake.RUSHES
    assert kept(service) == [content] * 3 * intake.RUSHES


def test_a_slow_sender_holds_no_thread(client: httpx.Client, service: Service, secret: str) -> None:
    create(client)
    with connected(service) as slow:
        slow.sendall(head(secret, 9_000_000) + body(1_000_000))
        time.sleep(0.5)
        assert Intake._rushes == 0


def test_a_body_in_chunks_is_left_to_the_event_loop(client: httpx.Client, service: Service, rushed: list[int]) -> None:
    create(client)
    content = body(3_000_000)
    pieces = (content[start : start + 100_000] for start in range(0, len(content), 100_000))
    assert client.post(f"{URL}?grader=exact", content=pieces, headers=LINES).status_code == 202
    assert kept(service) == [content]
    assert not sum(rushed)


def test_a_body_too_long_to_be_taken_is_refused_before_it_comes(
    service: Service, client: httpx.Client, secret: str
) -> None:
    create(client)
    with connected(service) as connection:
        connection.sendall(head(secret, 5 * 1024**3))
        assert answers(connection, 1)[0].startswith(b"413")
    assert left(client, service) == []
