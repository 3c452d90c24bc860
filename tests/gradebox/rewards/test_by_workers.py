"""Tests of rewards that are scored as a batch, by the service's workers."""

import asyncio
import pickle
import re
import signal
import subprocess
import sys
import threading

import pytest

from gradebox import BatchFailed, Client, GraderHandle, ScoreMissing
from tests.gradebox.conftest import ROOT, Service
from tests.gradebox.rewards.conftest import awaiting
from tests.waiting import eventually

pytestmark = [pytest.mark.service, pytest.mark.sandbox]

_GROUPS = """
async def grade(threads: list[StringThread]) -> list[float]:
    return [float(len(thread.completion())) for thread in threads]
"""
_SLOW = """
import time

async def grade(thread):
    time.sleep(3 if thread.completion() == "x" else 0)
    return 1.0
"""
_TRAINER = """
import sys
import gradebox
reward = gradebox.Client(sys.argv[1], sys.argv[2]).graders.get(sys.argv[3]).as_trl_reward(by_workers=True)
print("ready", flush=True)
reward(prompts=["?"] * 100, completions=["x"] * 100)
"""
_ROLLOUTS = """
import asyncio, sys
import gradebox

async def rollouts(reward):
    scores = [asyncio.ensure_future(reward(prompt="?", completion="x")) for _ in range(20)]
    await asyncio.sleep(0.5)
    print("ready", flush=True)
    await asyncio.gather(*scores)

with gradebox.Client(sys.argv[1], sys.argv[2]) as client:
    asyncio.run(rollouts(client.graders.get(sys.argv[3]).as_verifiers_reward(by_workers=True)))
"""


@pytest.fixture
def slow(client: Client) -> GraderHandle:
    return client.graders.put("slow-reward", fn=_SLOW, timeout_s=10)


def test_rewards_are_the_same_and_their_batch_is_deleted(
    service: Service, client: Client, grader: GraderHandle
) -> None:
    """Also by a key of the role `score`, which trainers have."""
    said = {"prompts": ["?"] * 4, "completions": ["4", "5", "bad", "off"], "answer": ["4"] * 4}
    key = client.keys.create("trainer", projects=["default"], role="score")
    with Client(service.url, key.secret) as trainer:
        own = trainer.graders.get(grader.key)
        here, there = (own.as_trl_reward(missing="none", by_workers=by_workers)(**said) for by_workers in (False, True))
    assert here == there == [1.0, 0.0, None, None]
    assert client.batches.list(grader=grader.key) == []
    done = [line.action for line in client.audit(limit=200) if line.key == key.id]
    assert done == ["batch.delete", "batch.create"]


def test_a_reward_keeps_its_version(grader: GraderHandle) -> None:
    reward = pickle.loads(pickle.dumps(grader.as_trl_reward(by_workers=True)))
    grader.update(fn="async def grade(thread): return 0.5")
    assert reward(prompts=["?"], completions=["4"], answer=["4"]) == [1.0]


def test_each_framework(service: Service, grader: GraderHandle) -> None:
    ask = grader.as_verl_compute_score(by_workers=True)
    assert ask("gsm8k", "4", "4", {"answer": "4"}) == 1.0
    with pytest.raises(ScoreMissing, match="no answer at all"):
        ask("gsm8k", "bad", "4", {"answer": "4"})
    batched = grader.as_verl_compute_score(batched=True, by_workers=True)
    assert batched(["gsm8k"] * 2, ["4", "5"], ["4"] * 2, [{"answer": "4"}] * 2) == [1.0, 0.0]
    rubric = pickle.loads(pickle.dumps(grader.as_verifiers_reward(by_workers=True)))
    assert asyncio.run(rubric(prompt="?", completion="4", answer="4")) == 1.0

    async def run() -> list[object]:
        awaited = await awaiting(service).graders.get(grader.key)
        return [
            await awaited.as_trl_reward(by_workers=True)(prompts=["?"], completions=["5"], answer=["4"]),
            await awaited.as_verl_compute_score(by_workers=True)("gsm8k", "4", "4", {"answer": "4"}),
            await awaited.as_verifiers_reward(by_workers=True)(prompt="?", completion="4", answer="4"),
        ]

    assert asyncio.run(run()) == [[0.0], 1.0, 1.0]


def test_several_graders_and_groups(client: Client, grader: GraderHandle) -> None:
    half = client.graders.put("half-reward", fn="async def grade(thread): return 0.5")
    both = client.reward({grader: 0.75, half: 0.5}).as_trl_reward(by_workers=True, missing="none")
    assert both(prompts=["?"] * 3, completions=["4", "5", "bad"], answer=["4"] * 3) == [1.0, 0.25, None]
    groups = client.graders.put("group-reward", fn=_GROUPS).as_trl_reward(by_workers=True)
    assert groups(prompts=["a", "a", "b", "b"], completions=["1", "22", "333", ""]) == [1.0, 2.0, 3.0, 0.0]


def test_no_thread_is_no_batch(grader: GraderHandle) -> None:
    assert grader.as_trl_reward(by_workers=True)(prompts=[], completions=[]) == []


def test_a_batch_that_somebody_cancels_is_no_reward(client: Client, slow: GraderHandle) -> None:
    def cancel() -> None:
        eventually(lambda: [one.cancel() for one in client.batches.list(grader=slow.key) if one.state == "running"])

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(BatchFailed, match="cancelled"):
        slow.as_trl_reward(by_workers=True)(prompts=["?"] * 20, completions=["x"] * 20)
    thread.join()


@pytest.mark.parametrize(
    ("program", "told", "within_s"),
    [(_TRAINER, r"KeyboardInterrupt\s*$", 30), (_ROLLOUTS, "(?s)(?=.*KeyboardInterrupt).*is being cancelled", 10)],
)
def test_ctrl_c_cancels_the_batch_and_does_not_wait_for_that_of_rollouts(
    service: Service, client: Client, slow: GraderHandle, program: str, told: str, within_s: float
) -> None:
    command = [sys.executable, "-c", program, service.url, service.key, slow.key]
    trainer = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert trainer.stdout is not None
    trainer.stdout.readline()
    eventually(lambda: any(one.state == "running" for one in client.batches.list(grader=slow.key)))
    trainer.send_signal(signal.SIGINT)
    _, said = trainer.communicate(timeout=within_s)
    assert re.search(told, said), said
    assert client.batches.list(grader=slow.key)[0].state == "cancelled"


def test_a_task_that_is_cancelled_cancels_the_batch(service: Service, client: Client, slow: GraderHandle) -> None:
    """Also if the client is closed before: the task that sends collected calls ends with the event loop."""

    async def run() -> None:
        async with awaiting(service) as own:
            reward = (await own.graders.get(slow.key)).as_verifiers_reward(by_workers=True)
            tasks = [asyncio.ensure_future(reward(prompt="?", completion="x")) for _ in range(20)]
            await asyncio.sleep(1)
            tasks[0].cancel()
            await tasks[0]

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
    assert client.batches.list(grader=slow.key)[0].state == "cancelled"
