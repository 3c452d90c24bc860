"""Tests of the cost of one project's large answers for others."""

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Request

from api.access.callers import WaitingClient
from api.http.large_answers import AT_ONCE, LargeAnswers
from api.http.problems import ProblemError
from tests.api.conftest import PROJECT, Service, comes_early, problem
from tests.api.http.test_bounded_protocol import connected
from tests.api.http.test_websocket import request
from tests.storage.making import SOURCE, proved
from tests.waiting import eventually

VERSIONS = 64
MANY = 400
MIB = 1024 * 1024


@pytest.fixture
def versions(service: Service) -> str:
    """Creates a grader, and returns the path of an answer of 4 MiB."""
    graders = service.store.graders
    graders.create("default", "large", "large", "", proved(f"# 0{'x' * 60_000}\n{SOURCE}"))
    for number in range(1, VERSIONS + 4):
        graders.update("default", "large", proved(f"# {number}{'x' * 60_000}\n{SOURCE}"), {})
    return f"{PROJECT}/graders/large/versions"


def slowest(service: Service, secret: str, seconds: float) -> float:
    """The longest time of a small request with another key."""
    most, ends = 0.0, time.monotonic() + seconds
    headers = {"Authorization": f"Bearer {secret}"}
    with httpx.Client(base_url=service.url, headers=headers, timeout=60) as client:
        while time.monotonic() < ends:
            began = time.monotonic()
            assert client.get(f"{PROJECT}/graders/large").status_code == 200
            most = max(most, time.monotonic() - began)
            time.sleep(0.02)
    return most


def test_others_are_served_while_one_asks_for_many(service: Service, secret: str, versions: str) -> None:
    key = service.key("default", role="read")
    asked = request(key, "GET", versions)
    began = time.monotonic()
    for _ in range(5):
        httpx.get(service.url + versions, headers={"Authorization": f"Bearer {key}"})
    all_s = (time.monotonic() - began) / 5 * MANY
    with ExitStack() as stack, ThreadPoolExecutor(1) as threads:
        opened = [stack.enter_context(connected(service, small=True)) for _ in range(MANY)]
        slow = threads.submit(slowest, service, secret, 5)
        time.sleep(0.3)
        for connection in opened:
            connection.sendall(asked)
        assert slow.result() < all_s / 5, f"all of these answers together take {all_s:.1f} s"


@pytest.mark.usefixtures("versions")
@pytest.mark.parametrize("path", ["audit?limit=1000", "spending", "models", "endpoints", "graders/large/versions/1"])
def test_what_may_be_long_is_made_in_the_turns_of_its_project(
    path: str, service: Service, client: httpx.Client
) -> None:
    turns = service.services.large_answers._threads.shares
    assert not comes_early(turns, AT_ONCE // 2, lambda: client.get(f"{PROJECT}/{path}"))


def test_a_project_that_does_not_read_gets_no_more(
    service: Service, client: httpx.Client, versions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.services.large_answers.unread, "_most", 64 * MIB)
    monkeypatch.setattr("api.http.tenant_memory._LEAST", 0)
    service.store.projects.ensure("other")
    keys = [service.key("default", role="read"), service.key("default", role="read")]
    with ExitStack() as stack:
        opened = [stack.enter_context(connected(service, small=True)) for _ in range(20)]
        for number, connection in enumerate(opened):
            connection.sendall(request(keys[number % 2], "GET", versions))
        unread = service.services.large_answers.unread
        eventually(lambda: not unread.fits(0, "default"))
        for key in (*keys, service.key("default", role="read")):
            refused = httpx.get(service.url + versions, headers={"Authorization": f"Bearer {key}"}, timeout=60)
            assert "MiB of answers to this project were sent but are not read" in problem(
                refused, 429, "too-many-requests"
            )
            assert refused.headers["retry-after"] == "1"
        assert client.get("/v1/projects/other/graders").is_success
        time.sleep(1)
        assert unread.held < 64 * MIB  # of 20 answers that count 8 MiB; two were being made when the limit was reached
    eventually(lambda: not unread.held)  # what closed connections did not read


def test_a_stream_waits_while_its_project_does_not_read_and_its_first_block_for_nothing() -> None:
    answers = LargeAnswers(128 * MIB)
    asked = Request({"type": "http", "state": {"tenant": "one"}})

    async def read() -> None:
        answers.unread.count(129 * MIB, "other")  # no further block is made
        stream = answers.stream(asked, iter([b"second", b"third"]), b"first")
        assert [await anext(stream), await anext(stream)] == [b"first", b""]
        answers.unread.count(-64 * MIB, "other")
        assert await anext(stream) == b"second"
        answers.unread.count(-65 * MIB, "other")
        answers.unread.count(65 * MIB, "one")
        assert await anext(stream) == b""
        answers.unread.count(-65 * MIB, "one")
        assert [block async for block in stream] == [b"third"]

    asyncio.run(read())


def test_who_reads_is_not_blamed_for_others() -> None:
    answers = LargeAnswers(128 * MIB)
    answers.unread.count(129 * MIB, "other")

    async def never() -> Any:
        await asyncio.sleep(60)

    with pytest.raises(ProblemError, match="answers to others that are not read") as refusal:
        asyncio.run(answers.make(Request({"type": "http", "state": {"tenant": "one"}}, never), int))
    assert refusal.value.status == 503


def test_what_is_read_is_counted_no_more(service: Service, client: httpx.Client, versions: str) -> None:
    unread: LargeAnswers = service.services.large_answers
    with connected(service, small=True) as connection:
        secret = client.headers["Authorization"].split()[1]
        connection.sendall(request(secret, "GET", versions))
        time.sleep(0.5)
        assert unread.unread.held > MIB
        size = 0
        while size < 3 * MIB:
            size += len(connection.recv(65_536))
        connection.settimeout(1)
        with pytest.raises(TimeoutError):
            while connection.recv(65_536):
                pass
        assert not unread.unread.held


def test_threads_that_nobody_reads_take_bounded_memory(
    service: Service, client: httpx.Client, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.services.large_answers.unread, "_most", 16 * MIB)
    monkeypatch.setattr("api.http.tenant_memory._LEAST", 0)
    asked = request(secret, "GET", f"{PROJECT}/batches/{two_chunks(service, client)}/threads")
    with ExitStack() as stack:
        opened = [stack.enter_context(connected(service, small=True)) for _ in range(60)]
        before = memory_mb()
        for connection in opened:
            connection.sendall(asked)
        time.sleep(3)
        assert memory_mb() - before < 60  # all first blocks together have 120 MiB


@pytest.mark.parametrize("size", [MIB // 2, 2 * MIB])
def test_a_block_counts_whole_until_it_is_sent(service: Service, client: httpx.Client, secret: str, size: int) -> None:
    """Also if the kernel's buffers would hold it: these are memory of the machine, too."""
    batch = two_chunks(service, client, size)
    unread = service.services.large_answers.unread
    with connected(service, small=True) as connection:
        connection.sendall(request(secret, "GET", f"{PROJECT}/batches/{batch}/threads"))
        eventually(lambda: unread.held >= 2 * size)


def two_chunks(service: Service, client: httpx.Client, size: int = 2 * MIB) -> str:
    """A batch of two threads of this size, chunks if they have 2 MiB."""
    service.store.graders.create("default", "any", "any", "", proved(SOURCE))
    line = b'{"completion":"%b"}\n' % (b"x" * size)
    kind = {"Content-Type": "application/x-ndjson"}
    batch: str = client.post(f"{PROJECT}/batches?grader=any", content=line * 2, headers=kind).json()["id"]
    return batch


def memory_mb() -> float:
    """The memory of this process, in which the API runs, too."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def test_a_score_waits_while_its_project_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, client = LargeAnswers(128 * MIB), WaitingClient()

    async def room() -> None:
        await answers.room(client, "one", 99 * MIB)  # it has read all
        answers.unread.count(60 * MIB, "one")
        await answers.room(client, "one", 2 * MIB)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(answers.room(client, "one", 3 * MIB), 0.2)
        await answers.room(client, "one", 1000)
        monkeypatch.setattr("api.http.large_answers.READ_S", 0)
        with pytest.raises(ProblemError, match="read those first"):
            await answers.room(client, "one", 3 * MIB)
        client.leave()
        with pytest.raises(ProblemError, match="closed"):
            await answers.room(client, "one", 3 * MIB)

    asyncio.run(room())


def test_a_project_that_does_not_read_starts_no_grader(
    service: Service, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.http.large_answers.READ_S", 0.1)
    unread = service.services.large_answers.unread
    unread.count(200 * MIB, "default")
    try:
        answer = client.post(f"{PROJECT}/validate", json={"source": "async def grade(thread):\n    return 1.0\n"})
    finally:
        unread.count(-200 * MIB, "default")
    assert "read those first" in problem(answer, 429, "too-many-requests")
