"""Tests of rewards, called as verl's reward managers call them."""

import asyncio
import inspect
import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest

from gradebox import AsyncGraderHandle, Client, GraderHandle, ScoreMissing

pytestmark = [pytest.mark.service, pytest.mark.sandbox]

EXTRA = {"answer": "4", "index": np.int64(7), "num_turns": None, "rollout_reward_scores": {}}


def call_with_kwargs(raw_fn: Any, extra_kwargs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
    """Calls a custom function as verl does (verl 0.9, verl/trainer/ppo/reward.py)."""
    return raw_fn(*args, **{**kwargs, **extra_kwargs})


async def run_single(compute_score: Any, response: str) -> float:
    """`NaiveRewardManager.run_single` (verl 0.9, verl/experimental/reward_loop/reward_manager/naive.py)."""
    named = {"data_source": "gsm8k", "solution_str": response, "ground_truth": np.array(["4"]), "extra_info": EXTRA}
    if inspect.iscoroutinefunction(compute_score):
        return float(await compute_score(**named, reward_router_address="here"))
    loop = asyncio.get_running_loop()
    return float(await loop.run_in_executor(None, lambda: partial(call_with_kwargs, compute_score, {})(**named)))


async def run_all(compute_score: Any, responses: list[str]) -> list[float]:
    return await asyncio.gather(*(run_single(compute_score, response) for response in responses))


def test_one_sample_at_a_time(grader: GraderHandle) -> None:
    compute_score = grader.as_verl_compute_score()
    assert asyncio.run(run_all(compute_score, ["4", "5"] * 20)) == [1.0, 0.0] * 20
    assert compute_score("gsm8k", "4", "4", {"answer": "4"}) == 1.0


def test_awaited(awaited: AsyncGraderHandle) -> None:
    assert asyncio.run(run_all(awaited.as_verl_compute_score(), ["4", "5"] * 50)) == [1.0, 0.0] * 50


def test_a_batch_at_once(grader: GraderHandle) -> None:
    """Calls the reward as `BatchRewardManager.verify` does (verl 0.9, verl/workers/reward_manager/batch.py)."""
    scores = grader.as_verl_compute_score(batched=True)(
        data_sources=np.array(["gsm8k", "gsm8k"]),
        solution_strs=["4", "5"],
        ground_truths=["4", None],
        extra_infos=np.array([EXTRA, EXTRA]),
    )
    assert scores == [1.0, 0.0]


@pytest.mark.parametrize("short", ["data_sources", "ground_truths", "extra_infos"])
def test_lists_of_different_lengths_are_named(grader: GraderHandle, short: str) -> None:
    samples: dict[str, Any] = {"data_sources": ["a", "a"], "solution_strs": ["4", "5"], "ground_truths": ["4", "4"]}
    samples["extra_infos"] = [EXTRA, EXTRA]
    with pytest.raises(ValueError, match=f"{short} has 1 values, and solution_strs has 2"):
        grader.as_verl_compute_score(batched=True)(**samples | {short: samples[short][:1]})


def test_no_score_is_raised(grader: GraderHandle) -> None:
    with pytest.raises(ScoreMissing, match="no answer at all") as missing:
        grader.as_verl_compute_score()("gsm8k", "bad", "4", {"answer": "4"})
    assert missing.value.outcome.error is not None and missing.value.outcome.error.kind == "exception"
    with pytest.raises(ScoreMissing, match=r"gave completion 1 \(from 0\) no score"):
        grader.as_verl_compute_score(batched=True)(["a", "a"], ["4", "bad"], ["4", "4"], [EXTRA, EXTRA])


def test_what_a_grader_does_not_apply_to_is_raised(grader: GraderHandle) -> None:
    with pytest.raises(ScoreMissing, match="it does not apply: nothing to compare") as missing:
        grader.as_verl_compute_score()("gsm8k", "off", "4", {"answer": "4"})
    assert missing.value.outcome.not_applicable == "nothing to compare"
    with pytest.raises(ScoreMissing):
        grader.as_verl_compute_score(batched=True)(["a", "a"], ["4", "off"], ["4", "4"], [EXTRA, EXTRA])


def test_what_else_verl_says_is_the_metadata(client: Client, grader: GraderHandle) -> None:
    told = {"answer": "4", "index": 7, "num_turns": None, "rollout_reward_scores": {}, "data_source": "gsm8k"}
    source = f"async def grade(thread):\n    return float(thread.metadata == {told | {'ground_truth': [4.5]}})\n"
    kept = client.graders.update(grader.key, fn=source)
    assert kept.as_verl_compute_score()("gsm8k", "4", np.array([4.5]), EXTRA) == 1.0


@pytest.mark.parametrize("batched", [False, True])
def test_a_named_column_that_a_sample_lacks_is_an_error(grader: GraderHandle, batched: bool) -> None:
    compute_score = grader.as_verl_compute_score(batched=batched, columns=["answer", "level"])
    samples = [("gsm8k", "4", "4", {"answer": "4", "level": None}), ("aime", "4", "4", {"answer": "4"})]
    with pytest.raises(ValueError, match="column 'level' is missing: the sample has answer, data_source, ground_truth"):
        compute_score(*zip(*samples, strict=True)) if batched else compute_score(*samples[1])
    assert compute_score(*([part] for part in samples[0]))[0] == 1.0 if batched else compute_score(*samples[0]) == 1.0


@pytest.mark.parametrize("batched", [False, True])
def test_a_reward_can_be_pickled(grader: GraderHandle, batched: bool) -> None:
    compute_score = pickle.loads(pickle.dumps(grader.as_verl_compute_score(batched=batched)))
    one = ("gsm8k", "4", "4", {"answer": "4"})
    assert compute_score(*[[part] for part in one] if batched else one) == ([1.0] if batched else 1.0)


@pytest.mark.parametrize("batched", [False, True])
def test_what_json_cannot_hold_is_refused_or_left_out_by_name(grader: GraderHandle, batched: bool) -> None:
    one = ("gsm8k", "4", "4", EXTRA | {"image": object()})
    many = [[part] for part in one] if batched else one
    with pytest.raises(ValueError, match="column 'image': it holds a value of type object"):
        grader.as_verl_compute_score(batched=batched)(*many)
    named = grader.as_verl_compute_score(batched=batched, columns=["answer"])
    assert named(*many) == ([1.0] if batched else 1.0)
