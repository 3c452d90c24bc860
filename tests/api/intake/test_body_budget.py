import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import httpx
import pytest

from api.http.problems import ProblemError
from api.intake.bodies import MIB
from api.intake.body_budget import BodyMemory
from tests.api.conftest import GOOD, PROJECT, Service, create, problem
from tests.waiting import eventually

JSON = {"Content-Type": "application/json"}


@contextmanager
def unfinished(client: httpx.Client, count: int, first: bytes, last: bytes) -> Iterator[None]:
    """So many requests whose bodies end with the block."""
    go_on = threading.Event()

    def body() -> Iterator[bytes]:
        yield first
        go_on.wait(10)
        yield last

    def send() -> None:
        with httpx.Client(base_url=client.base_url, headers=client.headers) as own:
            own.post(f"{PROJECT}/validate", content=body(), headers=JSON)

    with ThreadPoolExecutor(count) as threads:
        for _ in range(count):
            threads.submit(send)
        try:
            yield
        finally:
            go_on.set()


def test_bodies_of_all_requests_together_are_bounded(
    service: Service, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = service.services.memory
    monkeypatch.setattr(memory, "_most", 2_000_000)
    with unfinished(client, 1, b" " * 1_500_000, b'{"source": ""}'):
        eventually(lambda: memory.held)
        response = client.post(f"{PROJECT}/validate", content=b" " * 1_500_000, headers=JSON)
        assert "MiB already" in problem(response, 503, "unavailable")
        assert response.headers["retry-after"]
    assert memory.held == 0


def test_what_a_request_held_is_let_go_of(service: Service, client: httpx.Client) -> None:
    for body in (b"{", b'{"source": ""}', b" " * 17_000_000):
        client.post(f"{PROJECT}/validate", content=body, headers=JSON)
    client.post(f"{PROJECT}/validate", json={"source": GOOD})
    assert service.services.memory.held == 0


def test_short_bodies_are_counted_from_their_first_byte(service: Service, client: httpx.Client) -> None:
    memory = service.services.memory
    with unfinished(client, 3, b" " * 200_000, b"{}"):
        eventually(lambda: memory.held >= 600_000)
        assert memory.held == 600_000
    assert (memory.held, dict(memory._of_key)) == (0, {})


def test_a_batch_is_taken_while_others_hold_all_memory(service: Service, client: httpx.Client) -> None:
    create(client)
    memory = service.services.memory
    memory.count(memory._most, "another")
    try:
        response = client.post(
            f"{PROJECT}/batches?grader=exact",
            content=b'{"completion": "4"}\n' * 10,
            headers={"Content-Type": "application/x-ndjson"},
        )
    finally:
        memory.count(-memory._most, "another")
    assert (response.status_code, response.json()["threads"]) == (202, 10)
    assert (memory.held, dict(memory._of_key)) == (0, {})


def test_one_key_holds_half_at_most() -> None:
    memory = BodyMemory(400 * MIB)
    of_one, of_other = ({"state": {"key": SimpleNamespace(id=name)}} for name in ("one", "other"))
    memory.hold(of_one, 200 * MIB)
    with pytest.raises(ProblemError):
        memory.hold(of_one, 1)
    memory.hold(of_other, 200 * MIB)
    memory.let_go(of_one, 100 * MIB)
    memory.release(of_one)
    memory.release(of_other)
    assert memory.held == 0


def test_one_key_may_send_the_longest_body_where_there_is_little_memory() -> None:
    memory = BodyMemory(64 * MIB)
    memory.hold({"state": {"key": SimpleNamespace(id="one")}}, 64 * MIB)
