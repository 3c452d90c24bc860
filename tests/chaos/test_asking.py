"""Tests that kills while completions are judged lose no outcome, and that no kept reply is requested again."""

import os
import random
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from examples.model_server import ModelServer, Script
from gradebox import BatchHandle
from gradebox.errors import ApiError, ConnectionFailed
from tests.chaos.service import Service

JUDGE = """
from gradebox import Model, Score

judge = Model("small-judge")


async def grade(thread: StringThread) -> float:
    verdict = await judge.choose(f"Is this polite? {thread.completion()}", ["yes", "no"])
    return Score(verdict.option == "yes", reason=thread.completion())
"""
COMPLETIONS = 400
AT_ONCE = 8
# More than three kills of sandboxes could hit one thread four times, which would rightly be a crash then.
ROLES = ("worker", "worker", "worker", "sandbox", "sandbox", "api", "redis", "redis")


@pytest.mark.service
@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kills_lose_no_outcome_and_ask_again_what_was_under_way_alone(tmp_path: Path) -> None:
    """`GRADEBOX_CHAOS_SEED` repeats a run's choices."""
    seed = int(os.environ.get("GRADEBOX_CHAOS_SEED") or random.randrange(1_000_000))
    chance = random.Random(seed)
    with ModelServer(Script(latency_s=0.25)) as server, Service(tmp_path, workers=1) as service:
        service.await_ready()
        with service.client() as client:
            client.models.create("small-judge", base_url=server.base_url, model="m", max_concurrency=AT_ONCE)
            client.graders.create.function(key="polite", fn=JUDGE)
            asked_before = len(server.bodies)
            threads = [{"id": n, "completion": f"answer {n}"} for n in range(COMPLETIONS)]
            batch = client.batches.create("polite", threads)
            killed: Counter[str] = Counter()
            for role in chance.sample(ROLES, len(ROLES)):
                time.sleep(chance.uniform(0.2, 1.2))
                if _is_over(batch):
                    break
                there = service.processes()[role]
                killed[role] += service.kill([chance.choice(there)] if there else [])
                service.ensure()
            service.await_ready()
            service.wait(lambda: _is_over(batch), 240, lambda: f"seed {seed}: {batch}")
            outcomes = list(batch.outcomes())
        assert killed.total() >= len(ROLES) // 2, f"seed {seed}: the batch was over after {killed}"
        assert [outcome.id for outcome in outcomes] == list(range(COMPLETIONS)), f"seed {seed}"
        wrong = [each for each in outcomes if (each.score, each.reason) != (1.0, f"answer {each.id}")]
        assert wrong == [], f"seed {seed}: {wrong[:3]}"
        asked = Counter(body["messages"][0]["content"] for body in server.bodies[asked_before:])
        assert len(asked) == COMPLETIONS, f"seed {seed}"
        again = asked.total() - len(asked)
        assert again <= AT_ONCE * killed.total(), f"seed {seed}: {again} replies were asked for again, {killed}"


def _is_over(batch: BatchHandle) -> bool:
    with suppress(ConnectionFailed, ApiError):
        batch.refresh()
    return batch.state == "finished"
