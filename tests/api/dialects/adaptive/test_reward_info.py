"""Tests of answers to the request for a reward server's description. tests/models has those of permitted addresses."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from api.dialects.adaptive.reward_info import described
from api.dialects.adaptive.types import RemoteEnvTestOffline
from models.settings import ModelSettings


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"500 Fault\r\nContent-Length: 6\r\n\r\nsecret", "answers with status 500"),
        (b"302 Found\r\nLocation: /good/info\r\nContent-Length: 0\r\n\r\n", "answers with status 302"),
        (b"200 OK\r\nContent-Length: 6\r\n\r\nsecret", "not that of a reward server"),
        (b"200 OK\r\nContent-Length: 9000\r\n\r\n" + b"[" * 9000, "not that of a reward server"),
        (b"200 OK\r\nContent-Length: 9000\r\n\r\nsecret", "closed the connection"),
    ],
)
def test_another_answer_is_told_without_what_it_holds(answer: bytes, told: str) -> None:
    def serve() -> bytes:
        connection, _ = listening.accept()
        with connection:
            request = connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 " + answer)
        return request

    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor() as threads:
        place = f"127.0.0.1:{listening.getsockname()[1]}"
        request = threads.submit(serve)
        found = asyncio.run(described(f"http://{place}/base/", ModelSettings(model_hosts=(place,))))
        assert request.result().startswith(b"GET /base/info HTTP/1.1\r\n")
    assert isinstance(found, RemoteEnvTestOffline)
    assert told in found.error
    assert "secret" not in found.error
