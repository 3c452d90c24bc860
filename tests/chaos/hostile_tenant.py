"""Attacks of a tenant who wants to stop the service. Each is bounded in number and rate, and ends with the test."""

import json
import secrets
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

import httpx

PROJECT = "hostile"
WAIT_S = 6.0  # for an answer; an attacker does not wait for long
MIB = 1024 * 1024

# Completions that a grader executes. Each takes as much of a resource as it can, for as long as it can.
BOMBS = {
    "fork": "import os\nfor _ in range(500):\n    if os.fork() == 0:\n        while True: pass\n",
    "print": "for _ in range(2_000): print('x' * 50_000)\n",
    "memory": "held = [bytearray(1 << 24) for _ in range(500)]\n",
    "descriptors": "import os\nheld = [os.pipe() for _ in range(5_000)]\n",
    "locks": "import fcntl\nwith open('/tmp/locks', 'w') as file:\n    for at in range(0, 400_000, 2):\n"
    "        fcntl.lockf(file, fcntl.LOCK_EX, 1, at)\n",
    "time": "while True: pass\n",
}
GRADERS = {
    "sleeps": ("import time\nasync def grade(t):\n    time.sleep(0 if t.completion() else 5)\n    return 1.0\n", 6.0),
    "follows": ("async def grade(thread):\n    return float(thread.completion())\n", 1.0),
    "runs": ("async def grade(thread):\n    exec(thread.completion())\n    return 1.0\n", 2.0),
}


@dataclass
class HostileTenant:
    """Each public method except `start` is an attack. It is repeated with a pause until `over` is set."""

    url: str
    key: str
    over: threading.Event = field(default_factory=threading.Event)
    answers: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def start(self) -> list[threading.Thread]:
        """Starts all attacks, each in threads."""
        threads = [
            threading.Thread(target=self._repeat, args=(way, pause_s), name=way.__name__)
            for way, pause_s, times in self._ways()
            for _ in range(times)
        ]
        for thread in threads:
            thread.start()
        return threads

    def _ways(self) -> Iterator[tuple[Callable[[httpx.Client], None], float, int]]:
        """Each attack, the pause after it, and its number of threads."""
        yield self.slow_scores, 0.0, 24
        yield self.slow_batches, 5.0, 1
        yield self.tiny_batches, 0.05, 1
        yield self.tiny_scores, 1.0, 1
        yield self.half_pairs, 2.0, 1
        yield self.huge_bodies, 5.0, 1
        yield self.websockets, 5.0, 1
        yield self.event_streams, 5.0, 1
        yield self.wrong_keys, 0.02, 2
        yield self.bombs, 3.0, 1

    def _repeat(self, way: Callable[[httpx.Client], None], pause_s: float) -> None:
        headers = {"Authorization": f"Bearer {self.key}"}
        with httpx.Client(base_url=self.url, headers=headers, timeout=WAIT_S, trust_env=False) as client:
            while not self.over.is_set():
                try:
                    way(client)
                except (httpx.HTTPError, OSError) as error:  # the service may refuse or break off a request in any way
                    self.answers[type(error).__name__] += 1
                except Exception as error:  # a broken attack would test nothing
                    self.faults.append(f"{way.__name__}: {error!r}")
                    return
                self.over.wait(pause_s)

    def _note(self, response: httpx.Response) -> httpx.Response:
        self.answers[str(response.status_code)] += 1
        return response

    def _score(self, client: httpx.Client, grader: str, body: bytes | list[str]) -> None:
        if isinstance(body, list):
            body = json.dumps({"threads": [{"completion": one} for one in body]}).encode()
        path = f"/v1/projects/{PROJECT}/graders/{grader}/score"
        self._note(client.post(path, content=body, headers={"Content-Type": "application/json"}))

    def _batch(self, client: httpx.Client, grader: str, completions: list[str]) -> str | None:
        lines = b"".join(json.dumps({"completion": one}).encode() + b"\n" for one in completions)
        response = self._note(
            client.post(
                f"/v1/projects/{PROJECT}/batches",
                params={"grader": grader},
                content=lines,
                headers={"Content-Type": "application/x-ndjson", "Idempotency-Key": secrets.token_hex(8)},
            )
        )
        return str(response.json()["id"]) if response.status_code == httpx.codes.ACCEPTED else None

    def slow_scores(self, client: httpx.Client) -> None:
        """Occupies threads and sandboxes of the API with dozens of requests, and does not wait for their end."""
        self._score(client, "sleeps", [""] * 20)

    def slow_batches(self, client: httpx.Client) -> None:
        """Occupies workers with a batch."""
        self._batch(client, "sleeps", [""] * 100)

    def tiny_batches(self, client: httpx.Client) -> None:
        """Sends a batch of one completion, at most twenty a second."""
        self._batch(client, "follows", ["1"])

    def tiny_scores(self, client: httpx.Client) -> None:
        """Makes scores that are too close together for a histogram."""
        self._batch(client, "follows", ["0.0", "5e-324"])
        self._score(client, "follows", ["0.0", "5e-324"])

    def half_pairs(self, client: httpx.Client) -> None:
        """Sends escapes of half surrogate pairs, of all 2048."""
        escapes = b"".join(b"\\u%04x" % (0xD800 + number % 0x800) for number in range(2 * MIB // 6))
        self._score(client, "follows", b'{"threads": [{"completion": "' + escapes + b'"}]}')

    def huge_bodies(self, client: httpx.Client) -> None:
        """Sends a body of many small values."""
        self._score(client, "follows", b'{"threads": [' + b"1," * (8 * MIB) + b"1]}")

    def websockets(self, _: httpx.Client) -> None:
        """Holds 300 websockets open."""
        address = httpx.URL(self.url)
        head = (
            f"GET /reward/{PROJECT}/follows/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            f"Authorization: Bearer {self.key}\r\n\r\n"
        )
        with ExitStack() as held:
            for _number in range(300):
                opened = held.enter_context(socket.create_connection((address.host, address.port or 80), WAIT_S))
                opened.sendall(head.encode())
            self.answers["websockets held"] += 300
            self.over.wait(20)

    def event_streams(self, client: httpx.Client) -> None:
        """Holds 100 event streams of one batch open."""
        batch = self._batch(client, "sleeps", [""] * 20)
        if batch is None:
            return
        with ExitStack() as held:
            for _ in range(100):
                request = client.build_request("GET", f"/v1/projects/{PROJECT}/batches/{batch}/events")
                response = client.send(request, stream=True)
                held.callback(response.close)
                self._note(response)
            self.over.wait(20)

    def wrong_keys(self, client: httpx.Client) -> None:
        """Sends a key that does not exist."""
        self._note(client.get("/v1/projects", headers={"Authorization": f"Bearer gbx_{secrets.token_hex(6)}_x"}))

    def bombs(self, client: httpx.Client) -> None:
        """Sends completions that take as much of a resource as they can."""
        self._batch(client, "runs", [*BOMBS.values()])
        with suppress(httpx.TimeoutException):
            self._score(client, "runs", [*BOMBS.values()])
