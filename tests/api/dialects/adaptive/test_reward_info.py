"""Tests of answers to the request for a reward server's description. tests/models has those of permitted addresses."""

import asyncio

import pytest

from api.dialects.adaptive.reward_info import described
from api.dialects.adaptive.types import RemoteEnvTestOffline
from models.settings import ModelSettings
from tests.answering import answering


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
    heard: list[bytes] = []
    with answering(lambda: [b"HTTP/1.1 " + answer], heard) as url:
        settings = ModelSettings(model_hosts=(url.removeprefix("http://"),))
        found = asyncio.run(described(f"{url}/base/", settings))
    assert heard[0].startswith(b"GET /base/info HTTP/1.1\r\n")
    assert isinstance(found, RemoteEnvTestOffline)
    assert told in found.error
    assert "secret" not in found.error
