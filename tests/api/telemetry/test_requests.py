"""Tests of the log of requests."""

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from structlog.testing import capture_logs

from api.telemetry import requests
from tests.api.conftest import PROJECT, Service
from tests.waiting import eventually


@pytest.fixture
def lines() -> Iterator[list[dict[str, object]]]:
    with capture_logs() as captured:
        yield captured  # type: ignore[misc]  # structlog has another type for a line


def test_refusals_of_strangers_are_one_line_for_all(service: Service, lines: list[dict[str, object]]) -> None:
    service.services.requests.refusals.tell()
    lines.clear()
    with httpx.Client(base_url=service.url) as stranger:
        for _ in range(30):
            assert stranger.get(PROJECT + "/graders").status_code == 401
            assert stranger.post("/nowhere").status_code == 404
            assert stranger.get("/v1/projects", headers={"Authorization": "Bearer no"}).status_code == 401
    eventually(lambda: service.services.requests.refusals.count == 90)
    assert [line for line in lines if line["event"] == "request"] == []
    service.services.requests.refusals.tell()
    told = [line for line in lines if line["event"] == "requests refused, no key identified"]
    (line,) = [line for line in told if "403" not in str(line["statuses"])]  # those are of a test before
    assert line["statuses"] == {"401": 60, "404": 30}


def test_a_refusal_with_a_key_is_a_line(client: httpx.Client, lines: list[dict[str, object]]) -> None:
    assert client.get(f"{PROJECT}/graders/none").status_code == 404
    eventually(lambda: bool(lines))  # it is logged after the answer is sent
    (line,) = [line for line in lines if line["event"] == "request"]
    assert (line["status"], line["route"]) == (404, "/v1/projects/{project}/graders/{key}")


def test_refusals_are_told_after_a_while(monkeypatch: pytest.MonkeyPatch, lines: list[dict[str, object]]) -> None:
    monkeypatch.setattr(requests, "REFUSALS_S", 0.05)

    async def refuse() -> None:
        refusals = requests.Refusals()
        for _ in range(3):
            refusals.note(401)
        assert lines == []
        await asyncio.sleep(0.1)
        assert [line["statuses"] for line in lines] == [{"401": 3}]
        refusals.note(429)
        await asyncio.sleep(0.1)
        assert [line["statuses"] for line in lines] == [{"401": 3}, {"429": 1}]

    asyncio.run(refuse())
