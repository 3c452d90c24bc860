import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from api.http.problems import ProblemError
from api.http.tenant_memory import TenantMemory
from api.intake.bodies import MIB
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


def test_bodies_together_are_bounded(service: Service, client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert (memory.held, dict(memory._of_tenant)) == (0, {})


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
    assert (memory.held, dict(memory._of_tenant)) == (0, {})


def of(tenant: str) -> dict[str, dict[str, str]]:
    return {"state": {"tenant": tenant}}


def test_one_project_holds_half_of_what_others_leave() -> None:
    memory = TenantMemory(1024 * MIB)
    requests = [of(name) for name in ("one", "two", "three")]
    for request, most in zip(requests, (512, 256, 128), strict=True):
        memory.hold(request, most * MIB)
        with pytest.raises(ProblemError, match=f"for this project hold {most} MiB, all that they may now") as refusal:
            memory.hold(of(request["state"]["tenant"]), 1)
        assert refusal.value.status == 503
    next_one = of("next")
    memory.hold(next_one, 64 * MIB)
    memory.let_go(requests[0], 100 * MIB)
    for request in (*requests, next_one):
        memory.release(request)
    assert memory.held == 0


def test_keys_of_one_project_hold_no_more_than_one(
    service: Service, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.services.memory, "_most", 2_000_000)
    monkeypatch.setattr("api.http.tenant_memory._LEAST", 0)
    service.store.projects.ensure("other")
    keys = [service.key("default") for _ in range(2)]
    one, two = (httpx.Client(base_url=client.base_url, headers={"Authorization": f"Bearer {key}"}) for key in keys)
    with one, two, unfinished(one, 1, b" " * 800_000, b"{}"):
        eventually(lambda: service.services.memory.held >= 800_000)
        body = json.dumps({"source": GOOD}).encode() + b" " * 400_000
        refused = two.post(f"{PROJECT}/validate", content=body, headers=JSON)
        assert "for this project hold 0 MiB" in problem(refused, 503, "unavailable")
        other = client.post("/v1/projects/other/validate", content=body, headers=JSON)
        assert other.json()["valid"]


def test_the_longest_body_is_taken_where_there_is_little_memory() -> None:
    memory = TenantMemory(64 * MIB)
    memory.hold(of("one"), 64 * MIB)
