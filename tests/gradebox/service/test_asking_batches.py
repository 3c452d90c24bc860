"""Tests of batches of graders that ask, with a whole service."""

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from examples.model_server import ModelServer, Script
from gradebox import AsyncClient, BatchBudget
from gradebox.client._sync.batch_handle import BatchHandle
from tests.gradebox.conftest import ROOT, Service, serving
from tests.waiting import eventually

pytestmark = [pytest.mark.service, pytest.mark.sandbox]

REPLY = '{"reasoning": "so it seems", "option": "yes"}'
JUDGE = """
from gradebox import Model, Score

judge = Model("small-judge")


async def grade(thread: StringThread) -> float:
    verdict = await judge.choose(f"Is this polite? {thread.completion()}", ["yes", "no"])
    return Score(verdict.option == "yes")
"""
EXACT = "async def grade(thread):\n    return float(thread.completion() == '4')\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("asking"), "--workers", "1") as running:
        yield running


def threads(number: int, what: str) -> list[dict[str, object]]:
    return [{"prompt": "2 + 2?", "completion": f"{what} {n}"} for n in range(number)]


def over(service: Service, batch_id: str, seconds: float = 90) -> BatchHandle:
    with service.client() as client:
        batch = client.batches.get(batch_id)
        batch.wait(progress=False, timeout=seconds)
        return batch


def nice_of_workers(service: Service) -> dict[str, int]:
    """The `nice` value of each queue's worker."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, environ = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
            nice = int((folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[16])
        except OSError:  # the process has ended
            continue
        if command.endswith(b"-m\0worker\0") and bytes(service.data_dir) in environ:
            found["asking" if b"GRADEBOX_QUEUE=asking" in environ else "plain"] = nice
    return found


def test_a_batch_is_judged_and_no_other_waits_behind_it(service: Service) -> None:
    assert not (service.data_dir / "asking").exists()
    with ModelServer(Script(reply=REPLY, latency_s=0.8)) as server, service.client() as client:
        client.models.create("small-judge", base_url=server.base_url, model="m")
        client.graders.create.function(key="polite", fn=JUDGE)
        client.graders.create.function(key="exact", fn=EXACT)
        judged = client.batches.create(["polite", "exact"], threads(100, "judged"))
        plain = client.batches.create("exact", threads(100, "plain"))
        assert over(service, plain.id).scored == 100
        assert client.batches.get(judged.id).state in ("queued", "running")
        batch = over(service, judged.id)
        nice = nice_of_workers(service)
        assert nice["asking"] == nice["plain"] + 5
        assert (batch.scored, batch.errors) == (200, {})
        assert [one.mean for one in batch.summary] == [1.0, 0.0]
        assert len(server.bodies) == 101  # one of them from the proof
        client.models.delete("small-judge")


def test_a_batch_whose_model_is_deleted_in_the_middle_is_retried_when_it_is_back(service: Service) -> None:
    with ModelServer(Script(reply=REPLY, latency_s=0.2)) as server, service.client() as client:

        def create() -> None:
            client.models.create("small-judge", base_url=server.base_url, model="m", max_concurrency=8)

        create()
        client.graders.put("polite", fn=JUDGE)
        before = len(server.bodies)
        batch = client.batches.create("polite", threads(150, "deleted"))
        eventually(lambda: len(server.bodies) >= before + 6, 20)
        client.models.delete("small-judge")
        batch.wait(progress=False, timeout=60)
        errors = [one.error for one in batch.outcomes() if one.error is not None]
        assert 0 < len(errors) < 150
        assert {(one.kind, one.cause, one.retryable) for one in errors} == {("model", "unknown", True)}
        assert "no longer has the model 'small-judge', which was deleted: create it again" in errors[0].message
        (alone,) = client.score("polite", threads(1, "alone"))
        assert alone.error is not None and not alone.error.retryable
        create()
        batch.retry()
        batch.wait(progress=False, timeout=60)
        assert (batch.scored, batch.errors) == (150, {})
        client.models.delete("small-judge")


@contextmanager
def server_process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server that can be killed, and its base URL."""
    command = [sys.executable, "-m", "examples.model_server", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().split()[-1]
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_server_that_goes_away_in_the_middle_leaves_typed_errors_that_can_be_tried_again(service: Service) -> None:
    """Retries with both clients."""
    with (
        server_process("--port", "0", "--reply", REPLY, "--latency-s", "0.2") as (process, url),
        service.client() as client,
    ):
        prices: dict[str, Any] = {"input_price": 1_000, "output_price": 2_000}
        client.models.create("small-judge", base_url=url, model="m", timeout_s=2, max_concurrency=4, **prices)
        client.graders.put("polite", fn=JUDGE)
        batches = [client.batches.create("polite", threads(24, what)) for what in ("unplugged", "as well")]
        while httpx.get(url.removesuffix("/v1")).json()["requests"] < 16:
            time.sleep(0.05)
        process.kill()
        eventually(lambda: batches[0].refresh().waits_for != [], 20)
        assert str(batches[0].status.waits_for[0]).startswith("model small-judge has not answered for")
        before = [over(service, batch.id, 240) for batch in batches]
        outcomes = [list(batch.outcomes()) for batch in batches]
        port = url.removesuffix("/v1").rpartition(":")[2]
        with server_process("--port", port, "--reply", REPLY):
            first, second = batches
            assert first.retry().state == "running"
            asyncio.run(retried(service, second.id))
            after = [over(service, batch.id) for batch in batches]
        assert [list(batch.rewards()) for batch in batches] == [[1.0] * 24] * 2
        client.models.delete("small-judge")
    answered = asked = 0
    for batch, now, found in zip(before, after, outcomes, strict=True):
        causes = Counter(outcome.error.cause if outcome.error else None for outcome in found)
        answered += causes[None]
        assert causes["unreachable"] == 24 - causes[None] > 0
        assert all(outcome.error.retryable for outcome in found if outcome.error)
        assert batch.errors == {"model": causes["unreachable"]}
        assert (now.state, now.scored, now.errors) == ("finished", 24, {})
        (spent,) = (one.spent for one in now.summary)
        assert spent is not None
        asked += spent.asks
        assert 24 <= spent.asks <= 24 + causes["unreachable"]  # the retry asks again; some were not sent at first
        assert spent.input_tokens == 240
        assert spent.usd == pytest.approx(24 * 0.02)
    assert asked > 48  # those in flight were asked twice, and may all be of one batch
    assert answered >= 11  # of 16 requests, one was of the proof, and four were in flight


async def retried(service: Service, batch_id: str) -> None:
    """Retries the batch and waits for it."""
    async with AsyncClient(service.url, service.key) as client:
        batch = await client.batches.get(batch_id)
        assert (await batch.retry()).state == "running"
        assert (await batch.wait(progress=False, timeout=90)).scored == 24
        assert not [outcome async for outcome in batch.outcomes() if outcome.error]


def test_a_batch_spends_no_more_than_its_budget(service: Service) -> None:
    with ModelServer(Script(reply=REPLY, latency_s=0.05)) as server, service.client() as client:
        client.models.create("small-judge", base_url=server.base_url, model="m", max_concurrency=4)
        client.graders.put("polite", fn=JUDGE)
        threads_of_both = threads(60, "bounded")
        bounded = client.batches.create("polite", threads_of_both, budget=BatchBudget(tokens=300))
        over(service, bounded.id)
        causes = Counter(outcome.error.cause if outcome.error else None for outcome in bounded.outcomes())
        assert 20 <= causes[None] <= 24  # 15 tokens each, and four asks run when they are spent
        assert causes["over_budget"] == 60 - causes[None]
        asked = len(server.bodies)
        whole = client.batches.create("polite", threads_of_both, replies="new")
        assert over(service, whole.id).scored == 60
        assert len(server.bodies) == asked + 60  # kept replies are asked again
        client.models.delete("small-judge")
