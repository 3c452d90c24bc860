"""Tests of floods of requests without a valid key, and of a client with a valid key at the same address."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import httpx
import pytest

from api.access import strangers
from api.access.failed_keys import network_of
from api.access.strangers import Strangers
from tests.api.conftest import PROJECT, Service, problem
from tests.api.http.test_bounded_protocol import answered, connected
from tests.api.http.test_websocket import websocket_head

A_SECOND = 20
FLOOD_S = 2.0


@pytest.fixture
def few(service: Service, monkeypatch: pytest.MonkeyPatch) -> Strangers:
    found = Strangers(A_SECOND)
    monkeypatch.setattr(service.services, "strangers", found)
    monkeypatch.setattr(strangers, "_BURST_S", 0.5)
    monkeypatch.setattr(service.services.failed_keys, "count", lambda address: None)
    return found


@contextmanager
def flood(service: Service, head: bytes, connections: int = 30) -> Iterator[list[bytes]]:
    """Clients without a valid key send sixteen requests ahead, repeatedly. Yields the status lines."""
    answers: list[bytes] = []
    is_over = threading.Event()

    def attack() -> None:
        while not is_over.is_set():
            with connected(service) as connection:
                connection.settimeout(5)
                try:
                    connection.sendall(head * 16)
                    while not is_over.is_set() and (data := connection.recv(65_536)):
                        answers.extend(line for line in data.split(b"\r\n") if line.startswith(b"HTTP/1.1"))
                        connection.sendall(head * data.count(b"HTTP/1.1"))
                except OSError:
                    pass

    attackers = [threading.Thread(target=attack) for _ in range(connections)]
    for attacker in attackers:
        attacker.start()
    try:
        yield answers
    finally:
        is_over.set()
        for attacker in attackers:
            attacker.join()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /v1/projects HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /v1/projects HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer gbx_a_b\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["no key", "wrong key", "public"],
)
def test_a_flood_without_a_key_is_worked_on_so_fast_and_no_faster(
    service: Service, client: httpx.Client, few: Strangers, head: bytes
) -> None:
    assert client.get(f"{PROJECT}/graders").status_code == 200  # from now on the service remembers the key
    began = time.monotonic()
    with flood(service, head) as answers:
        waited = []
        while time.monotonic() - began < FLOOD_S:
            asked = time.monotonic()
            assert client.get(f"{PROJECT}/graders").status_code == 200
            waited.append(time.monotonic() - asked)
            time.sleep(0.02)
        seconds = time.monotonic() - began
        found = list(answers)
    refused = sum(b" 429 " in line for line in found)
    assert 0 < len(found) - refused <= A_SECOND * (seconds + 1.5) + 1
    assert refused <= 30 * (seconds + 1)  # one a second for each connection
    assert median(waited) < 1


def test_who_comes_new_with_a_good_key_gets_in_during_a_flood(service: Service, secret: str, few: Strangers) -> None:
    with flood(service, b"GET /v1/projects HTTP/1.1\r\nHost: x\r\n\r\n"):
        time.sleep(1)
        for _ in range(20):
            answer = httpx.get(f"{service.url}{PROJECT}/graders", headers={"Authorization": f"Bearer {secret}"})
            if answer.status_code == 200:
                break
            problem_of_stranger(answer)
        assert answer.status_code == 200


@pytest.mark.parametrize("project", ["default", "nowhere"])
def test_good_keys_are_known_in_any_project(client: httpx.Client, few: Strangers, project: str) -> None:
    """Otherwise what it is refused for would tell which projects exist."""
    client.get(f"/v1/projects/{project}/graders")
    assert few.is_good(client.headers["Authorization"].encode())


def problem_of_stranger(answer: httpx.Response) -> None:
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert answer.json()["type"] == "urn:gradebox:problem:too-many-requests"


def test_websockets_wait_and_go_too(service: Service, few: Strangers) -> None:
    few._turns[network_of("127.0.0.1")] = time.monotonic() + 60
    answer = answered(service, websocket_head("gbx_a_b"))
    assert answer.startswith(b"HTTP/1.1 429") and b"too many requests without a valid API key" in answer


def test_a_revoked_key_is_a_strangers(service: Service, client: httpx.Client, few: Strangers) -> None:
    made = service.store.api_keys.create("gone", ["*"])
    header = f"Bearer {made.secret}"
    assert httpx.get(service.url + "/v1/projects", headers={"Authorization": header}).status_code == 200
    assert few.is_good(header.encode())
    service.store.api_keys.revoke(made.id)
    answer = httpx.get(service.url + "/v1/projects", headers={"Authorization": header})
    assert "revoked" in problem(answer, 401, "unauthorized")
    assert not few.is_good(header.encode())


def test_addresses_have_turns_of_their_own() -> None:
    found = Strangers(A_SECOND)
    for _ in range(1000):
        last = found.take_turn("10.0.0.1")
    assert not last
    assert found.take_turn("10.0.0.2")
    assert not found.take_turn("::ffff:10.0.0.1")
    assert found.take_turn("::ffff:10.0.0.3")


def test_after_a_pause_a_burst_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(strangers, "monotonic", lambda: now)
    found = Strangers(A_SECOND)
    assert [found.take_turn("a") for _ in range(200)].count(True) in (5 * A_SECOND, 5 * A_SECOND + 1)
    now += 1.5 / A_SECOND
    assert [found.take_turn("a") for _ in range(2)] == [True, False]
