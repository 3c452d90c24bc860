"""Servers that send little but what stands around a body must not block the event loop of all projects."""

import asyncio
from collections.abc import Callable, Iterable
from itertools import repeat
from time import monotonic

import pytest

from models.errors import AskFailed
from models.servers.client import ModelClient
from models.settings import ModelSettings
from tests.answering import answering
from tests.models.registered import model_at

HERE = ModelSettings(model_hosts=("*",), model_private="on", model_reply_kb=4096, model_connect_s=2)
BODY = b'{"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}'
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def ask(base_url: str) -> tuple[str, float]:
    """The reply, or why there is none; and the longest time that the event loop was blocked."""

    async def main() -> tuple[str, float]:
        worst = 0.0

        async def watch() -> None:
            nonlocal worst
            while True:
                began = monotonic()
                await asyncio.sleep(0.01)
                worst = max(worst, monotonic() - began)

        watching = asyncio.create_task(watch())
        async with ModelClient(model_at(base_url, "sk-0123456789", timeout_s=5), HERE) as client:
            try:
                said = (await client.chat([{"role": "user", "content": "?"}])).text
            except AskFailed as error:
                said = error.fault.message
        watching.cancel()
        return said, worst

    return asyncio.run(main())


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(lambda: repeat(CONTINUE * 1000), id="interim answers"),
        pytest.param(lambda: [CHUNKED, *[b"1\r\n \r\n" * 10_000] * 400], id="chunks of one byte"),
        pytest.param(lambda: [CHUNKED, b"1;", *[b"a" * 10_000] * 5000], id="a long chunk extension"),
    ],
)
def test_the_answer_is_broken_off_and_others_go_on(parts: Callable[[], Iterable[bytes]]) -> None:
    with answering(parts) as url:
        began = monotonic()
        said, blocked = ask(f"{url}/v1")
    assert "was not read" in said or "not HTTP" in said
    assert monotonic() - began < 4
    assert blocked < 1.5


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(lambda: [CONTINUE * 3, CHUNKED, b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)], id="some interim"),
        pytest.param(lambda: [CHUNKED, *(b"1\r\n%c\r\n" % each for each in BODY), b"0\r\n\r\n"], id="a body in bytes"),
        pytest.param(
            lambda: [CHUNKED, *[b"400\r\n" + b" " * 1024 + b"\r\n"] * 2000, b"42\r\n%b\r\n0\r\n\r\n" % BODY],
            id="a long body in usual chunks",
        ),
    ],
)
def test_an_honest_answer_is_read(parts: Callable[[], Iterable[bytes]]) -> None:
    assert len(BODY) == 0x42
    with answering(parts) as url:
        assert ask(f"{url}/v1")[0] == "yes"
