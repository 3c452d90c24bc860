import threading
import time
from collections.abc import Iterator

import httpx

from tests.api.conftest import GOOD, PROJECT, Service, problem

JSON = {"Content-Type": "application/json"}


def test_bodies_of_all_requests_together_are_bounded(service: Service, client: httpx.Client) -> None:
    memory = service.services.memory
    most, memory._most = memory._most, 2_000_000
    go_on = threading.Event()

    def waiting() -> Iterator[bytes]:
        yield b" " * 1_500_000
        go_on.wait(10)
        yield b'{"source": ""}'

    def send() -> None:
        with httpx.Client(base_url=service.url, headers=client.headers) as own:
            own.post(f"{PROJECT}/validate", content=waiting(), headers=JSON)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        while not memory.held:
            time.sleep(0.01)
        response = client.post(f"{PROJECT}/validate", content=b" " * 1_500_000, headers=JSON)
        assert "MiB already" in problem(response, 503, "unavailable")
        assert response.headers["retry-after"]
    finally:
        go_on.set()
        sender.join()
        memory._most = most
    assert memory.held == 0


def test_what_a_request_held_is_let_go_of(service: Service, client: httpx.Client) -> None:
    for body in (b"{", b'{"source": ""}', b" " * 17_000_000):
        client.post(f"{PROJECT}/validate", content=body, headers=JSON)
    client.post(f"{PROJECT}/validate", json={"source": GOOD})
    assert service.services.memory.held == 0
