"""Tests that the client repeats a request whose answer is lost, and that the service executes it only once."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import httpx
import pytest

from gradebox.client import AsyncClient, Client
from gradebox.errors import ConnectionFailed, NotFound
from tests.gradebox.conftest import Service
from tests.waiting import eventually

GRADER = "async def grade(thread):\n    return 1.0\n"
THREADS = [{"turns": [["assistant", str(number)]]} for number in range(3)]

pytestmark = pytest.mark.service


class Proxy:
    """A proxy between client and service that drops the next `losing` answers."""

    def __init__(self, url: str) -> None:
        self._service = httpx.URL(url)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.losing = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            service = socket.create_connection((self._service.host, self._service.port or 80))
            threading.Thread(target=self._carry, args=(client, service), daemon=True).start()
            threading.Thread(target=self._answer, args=(service, client), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass

    def _answer(self, service: socket.socket, client: socket.socket) -> None:
        try:
            while data := service.recv(65536):
                if self.losing:
                    self.losing -= 1
                    break
                client.sendall(data)
        except OSError:
            pass
        for end in (client, service):
            end.shutdown(socket.SHUT_RDWR)
            end.close()


@pytest.fixture
def proxy(service: Service) -> Iterator[Proxy]:
    proxy = Proxy(service.url)
    yield proxy
    proxy.close()


@contextmanager
def grader(service: Service, key: str, source: str = GRADER) -> Iterator[Client]:
    with service.client() as direct:
        direct.graders.create.function(key=key, fn=source)
        yield direct
        direct.graders.delete(key)


def made(client: Client, key: str) -> int:
    return sum(batch.graders[0].key == key for batch in client.batches.list(200))


def test_a_batch_whose_answers_were_lost_is_made_once(service: Service, proxy: Proxy) -> None:
    with grader(service, "lost-batch") as direct, Client(proxy.url, service.key) as client:
        before = made(direct, "lost-batch")
        proxy.losing = 3
        batch = client.batches.create("lost-batch", THREADS)
        batch.wait(progress=False)
        assert batch.status.scored == 3
        assert made(direct, "lost-batch") == before + 1


def test_a_grader_whose_answer_was_lost_is_made_once(service: Service, proxy: Proxy) -> None:
    with Client(proxy.url, service.key) as client:
        proxy.losing = 1
        assert client.graders.create.function(key="lost-grader", fn=GRADER).version == 1
        proxy.losing = 1
        assert client.graders.update("lost-grader", fn=f"# 2\n{GRADER}").version == 2
        client.graders.delete("lost-grader")


def test_a_batch_whose_end_was_not_heard_of_is_deleted(service: Service, proxy: Proxy) -> None:
    with grader(service, "lost-delete"), Client(proxy.url, service.key) as client:
        batch = client.batches.create("lost-delete", THREADS)
        proxy.losing = 1
        batch.delete()
        with pytest.raises(NotFound):
            batch.delete()


def test_files_are_sent_again_from_where_they_were(service: Service, proxy: Proxy, tmp_path: Path) -> None:
    path = tmp_path / "threads.jsonl"
    path.write_bytes(b"skipped\n" + b'{"turns": [["assistant", "4"]]}\n' * 2)

    async def sent(file: BinaryIO) -> int:
        async with AsyncClient(proxy.url, service.key) as client:  # others of these tests use the one that blocks
            return (await client.batches.create("lost-file", file)).status.threads

    with grader(service, "lost-file"), path.open("rb") as file:
        file.readline()
        proxy.losing = 1
        assert asyncio.run(sent(file)) == 2


def test_what_can_be_read_only_once_is_not_sent_cut_off(service: Service, proxy: Proxy) -> None:
    with grader(service, "lost-once"), Client(proxy.url, service.key) as client:
        proxy.losing = 1
        with pytest.raises(ConnectionFailed, match="broke"):
            client.batches.create("lost-once", iter(THREADS))


def test_a_reward_whose_service_is_away_for_too_long_names_its_batch(service: Service, proxy: Proxy) -> None:
    def lose() -> None:
        eventually(lambda: any(batch.state == "running" for batch in direct.batches.list(grader="left-batch")))
        proxy.losing = 9

    with grader(service, "left-batch", "import time\ntime.sleep(1)\n" + GRADER) as direct:
        with Client(proxy.url, service.key, retry_s=0) as client:
            reward = client.graders.get("left-batch").as_trl_reward(by_workers=True)
            thread = threading.Thread(target=lose)
            thread.start()
            with pytest.raises(ConnectionFailed) as raised:
                reward(prompts=["?"], completions=["4"])
            thread.join()
        (batch,) = direct.batches.list(grader="left-batch")
        batch.wait(progress=False)
    assert f"batch {batch.id} goes on" in raised.value.__notes__[0]
