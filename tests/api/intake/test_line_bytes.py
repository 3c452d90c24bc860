"""Tests that a long thread passes every limit if GRADEBOX_LINE_BYTES is above its default."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect

from tests.gradebox.conftest import Service, serving

pytestmark = [pytest.mark.service, pytest.mark.sandbox]
LONG = "x" * 6_000_000
SOURCE = "async def grade(thread):\n    return len(thread.completion())\n"
URL = "/v1/projects/default"


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("line-bytes")
    with serving(folder, "--workers", "1", line_bytes=str(8 * 1024 * 1024)) as service:
        service.client().graders.create.function(key="length", fn=SOURCE)
        yield service


@pytest.fixture
def client(roomy: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=roomy.url, headers={"Authorization": f"Bearer {roomy.key}"}, timeout=60) as client:
        yield client


def test_a_score(client: httpx.Client) -> None:
    answer = client.post(f"{URL}/graders/length/score", json={"threads": [{"completion": LONG}]}).json()
    assert answer["outcomes"][0]["score"] == len(LONG)
    refused = client.post(f"{URL}/graders/length/score", json={"threads": [{"completion": LONG + LONG}]})
    assert (refused.status_code, "8388608 bytes" in refused.text) == (413, True)


@pytest.mark.parametrize("is_lines", [True, False])
def test_a_batch(client: httpx.Client, is_lines: bool) -> None:
    if is_lines:
        line, headers = json.dumps({"completion": LONG}), {"Content-Type": "application/x-ndjson"}
        batch = client.post(f"{URL}/batches?grader=length", content=line, headers=headers).json()["id"]
    else:
        body = {"graders": [{"key": "length"}], "threads": [{"completion": LONG}]}
        batch = client.post(f"{URL}/batches", json=body).json()["id"]
    assert client.get(f"{URL}/batches/{batch}?wait_s=30").json()["state"] == "finished"
    assert json.loads(client.get(f"{URL}/batches/{batch}/outcomes").text)["score"] == len(LONG)


def test_a_reward_over_a_websocket(roomy: Service) -> None:
    async def ask() -> str:
        url = f"{roomy.url.replace('http', 'ws')}/reward/default/length/ws"
        async with connect(url, additional_headers={"Authorization": f"Bearer {roomy.key}"}) as socket:
            turns = [{"role": "assistant", "content": LONG}]
            await socket.send(json.dumps({"turns": turns, "metadata": {}, "id": 1}))
            await socket.recv()
            return str(await socket.recv())

    assert json.loads(json.loads(asyncio.run(ask()))["chunk"])["reward"] == len(LONG)
