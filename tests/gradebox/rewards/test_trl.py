"""Rewards as TRL's trainer asks for them."""

import asyncio
import inspect
import math
from typing import Any

import pytest

from gradebox import GraderHandle
from tests.gradebox.conftest import Service
from tests.gradebox.rewards.conftest import awaiting

pytestmark = [pytest.mark.service, pytest.mark.sandbox]


def calculate_rewards(reward_func: Any, inputs: list[dict[str, Any]], completions: list[Any]) -> list[float]:
    """`GRPOTrainer._calculate_rewards` (trl 1.16, trl/trainer/grpo_trainer.py), with lists in the place of tensors."""
    prompts = [example["prompt"] for example in inputs]
    completion_ids_list = [[1, 2, 3] for _ in completions]
    keys = [key for key in inputs[0] if key not in ["prompt", "completion", "completion_ids"]]
    reward_kwargs: dict[str, Any] = {key: [example[key] for example in inputs] for key in keys}
    reward_kwargs["trainer_state"] = object()
    reward_kwargs["log_extra"] = lambda column, values: None
    reward_kwargs["log_metric"] = lambda name, value: None
    reward_kwargs["environments"] = [object() for _ in inputs]
    called = reward_func(prompts=prompts, completions=completions, completion_ids=completion_ids_list, **reward_kwargs)
    output_reward_func = asyncio.run(called) if inspect.iscoroutinefunction(reward_func) else called
    output_reward_func = [reward if reward is not None else math.nan for reward in output_reward_func]
    if len(output_reward_func) != len(prompts):
        raise ValueError
    return [float(reward) for reward in output_reward_func]


def test_texts_and_columns(grader: GraderHandle) -> None:
    rewards = calculate_rewards(
        grader.as_trl_reward(), [{"prompt": "2+2?", "answer": "4", "image": object()}] * 3, ["4", "5", "bad"]
    )
    assert rewards[:2] == [1.0, 0.0]
    assert math.isnan(rewards[2])


def test_conversations(grader: GraderHandle) -> None:
    prompt = [{"role": "system", "content": "Count."}, {"role": "user", "content": [{"type": "text", "text": "2+2?"}]}]
    calls = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "add"}}]}
    completions = [
        [{"role": "assistant", "content": "4"}],
        [calls, {"role": "tool", "content": "4"}, {"role": "assistant", "content": "4"}],
        [calls],
    ]
    assert calculate_rewards(grader.as_trl_reward(), [{"prompt": prompt, "answer": "4"}] * 3, completions) == [1, 1, 0]


def test_its_name_is_the_graders(grader: GraderHandle) -> None:
    assert grader.as_trl_reward().__name__ == grader.key


def test_more_than_one_request_holds(grader: GraderHandle) -> None:
    inputs = [{"prompt": "?", "answer": str(n % 3)} for n in range(1_500)]
    assert sum(calculate_rewards(grader.as_trl_reward(), inputs, ["0"] * 1_500)) == 500


def test_awaited(service: Service, grader: GraderHandle) -> None:
    async def reward(**arguments: Any) -> list[float | None]:
        async with awaiting(service) as client:
            return await (await client.graders.get(grader.key)).as_trl_reward()(**arguments)

    assert calculate_rewards(reward, [{"prompt": "?", "answer": "4"}] * 2, ["4", "5"]) == [1.0, 0.0]
