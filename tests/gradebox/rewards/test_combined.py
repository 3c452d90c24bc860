"""Tests of one reward of several graders."""

import asyncio
import pickle
from typing import Any
from uuid import uuid4

import pytest

import gradebox
from gradebox import AsyncGraderHandle, Client, GraderHandle, Reward
from tests.gradebox.conftest import Service
from tests.gradebox.rewards.conftest import awaiting

pytestmark = [pytest.mark.service, pytest.mark.sandbox]

SHORT = """
from gradebox import Score

async def grade(thread):
    length = len(thread.completion())
    return Score(float(length < 3), reason=f"{length} characters", values={"length": length})
"""


@pytest.fixture
def short(client: Client) -> GraderHandle:
    """A grader: 1.0 if the completion is short."""
    return client.graders.create.function(key=f"short-{uuid4().hex[:8]}", fn=SHORT)


def test_a_handle_has_a_weight(client: Client, grader: GraderHandle, short: GraderHandle) -> None:
    combination = client.reward({grader: 0.75, short: 0.25})
    weights = [(str(one), one.weight) for one in combination.graders]
    assert weights == [(f"{grader.key}@1", 0.75), (f"{short.key}@1", 0.25)]
    batch = client.batches.create({short: 0.5}, [{"completion": "4"}])
    assert batch.rewards() == [0.5]
    assert hash(client.graders.get(short.key)) == hash(short)
    with pytest.raises(ValueError, match="named twice"):
        client.reward({short: 1, f"{short.key}@1": 1})


@pytest.mark.parametrize("name", ["as_trl_reward", "as_verl_compute_score", "as_verifiers_reward"])
def test_columns_are_not_one_text(awaited: AsyncGraderHandle, grader: GraderHandle, name: str) -> None:
    for one in (grader, awaited):
        with pytest.raises(TypeError, match=r"columns='answer' is one text: pass a list .* columns=\['answer'\]"):
            getattr(one, name)(columns="answer")


@pytest.fixture
def reward(client: Client, grader: GraderHandle, short: GraderHandle) -> Reward:
    return client.reward({grader.key: 0.75, short.key: 0.25})


def threads(*said: str) -> list[dict[str, Any]]:
    return [{"completion": one, "metadata": {"answer": "4"}, "id": one} for one in said]


def test_it_is_the_weighted_sum_and_a_missing_part_is_an_error_of_the_whole(
    grader: GraderHandle, short: GraderHandle, reward: Reward
) -> None:
    both, one, missing = reward.score(threads("4", "5", "bad"))
    assert (both.score, both.id) == (1.0, "4")
    assert both.values == {grader.key: 1.0, short.key: 1.0, f"{short.key}/length": 1.0}
    assert (both.grader, both.reason) == ("reward", f"{short.key}: 1 characters")
    assert (one.score, one.index) == (0.25, 1)
    assert missing.score is None
    assert missing.error is not None and (missing.error.kind, missing.error.retryable) == ("exception", False)
    assert missing.error.message.startswith(f"{grader.key}@1: ValueError: no answer at all")
    assert missing.values == {short.key: 0.0, f"{short.key}/length": 3.0}


def test_what_a_part_does_not_apply_to_has_no_number_and_an_error_comes_first(
    client: Client, grader: GraderHandle, short: GraderHandle, reward: Reward
) -> None:
    (off,) = reward.score(threads("off"))
    assert (off.score, off.error, off.not_applicable) == (None, None, f"{grader.key}@1: nothing to compare")
    assert off.values == {short.key: 0.0, f"{short.key}/length": 3.0}
    assert client.batches.create({grader.key: 0.75, short.key: 0.25}, threads("off", "4")).rewards() == [None, 1.0]
    metrics: dict[str, float] = {}
    rewards = reward.as_trl_reward(missing="none")(
        prompts=["?"] * 4, completions=["4", "off", "off", "bad"], answer=["4"] * 4, log_metric=metrics.__setitem__
    )
    assert rewards == [1.0, None, None, None]
    rates = {name.removeprefix("reward/"): value for name, value in metrics.items() if name.endswith("_rate")}
    of_parts = {f"{grader.key}/error_rate": 0.25, f"{short.key}/error_rate": 0.0}
    assert rates == {"error_rate": 0.25, "not_applicable_rate": 0.5} | of_parts


def test_trl_gets_one_number_and_metrics_by_grader(grader: GraderHandle, short: GraderHandle, reward: Reward) -> None:
    metrics: dict[str, float] = {}
    ask = reward.as_trl_reward(missing="none")
    assert ask.__name__ == "reward"
    rewards = ask(prompts=["?"] * 2, completions=["4", "bad"], answer=["4"] * 2, log_metric=metrics.__setitem__)
    assert rewards == [1.0, None]
    assert metrics == {
        "reward/error_rate": 0.5,
        "reward/not_applicable_rate": 0.0,
        f"reward/{grader.key}/error_rate": 0.5,
        f"reward/{short.key}/error_rate": 0.0,
        f"reward/{grader.key}": 1.0,
        f"reward/{short.key}": 0.5,
        f"reward/{short.key}/length": 2.0,
    }


def test_verl_and_verifiers_raise_where_a_part_is_missing(reward: Reward) -> None:
    compute_score = reward.as_verl_compute_score()
    assert compute_score("gsm8k", "5", "4", {"answer": "4"}) == 0.25
    with pytest.raises(gradebox.ScoreMissing, match="no answer at all"):
        compute_score("gsm8k", "bad", "4", {"answer": "4"})
    rubric = reward.as_verifiers_reward()

    async def ask() -> float:
        return await rubric(prompt="?", completion="5", answer="4")

    assert asyncio.run(ask()) == 0.25


def test_it_stays_with_its_versions(client: Client, short: GraderHandle) -> None:
    reward, first = client.reward([short.key]), client.reward(f"{short.key}@1")
    short.update(fn="async def grade(thread): return 0.5")
    assert [one.score(threads("4"))[0].score for one in (reward, first)] == [1.0, 1.0]
    assert client.reward(short.key).score(threads("4"))[0].score == 0.5


def test_it_can_be_pickled_and_awaited(
    service: Service, grader: GraderHandle, short: GraderHandle, reward: Reward
) -> None:
    again = pickle.loads(pickle.dumps(reward.as_trl_reward()))
    assert again(prompts=["?"], completions=["5"], answer=["4"]) == [0.25]

    async def run() -> list[float | None]:
        made = await awaiting(service).reward({grader.key: 0.75, short.key: 0.25}, name="mine")
        return await made.as_trl_reward()(prompts=["?"], completions=["5"], answer=["4"])

    assert asyncio.run(run()) == [0.25]


def test_two_versions_of_a_grader_have_their_own_metrics(client: Client, short: GraderHandle) -> None:
    short.update(fn="async def grade(thread): return 0.5")
    metrics: dict[str, float] = {}
    ask = client.reward([f"{short.key}@1", f"{short.key}@2"]).as_trl_reward()
    assert ask(prompts=["?"], completions=["4"], log_metric=metrics.__setitem__) == [1.5]
    assert (metrics[f"reward/{short.key}@1"], metrics[f"reward/{short.key}@2"]) == (1.0, 0.5)
    with pytest.raises(ValueError, match=f"the grader {short.key}@2 is named twice"):
        client.reward([short.key, f"{short.key}@2"])


def test_what_is_no_choice_is_refused(client: Client) -> None:
    with pytest.raises(gradebox.NotFound):
        client.reward({"no-such": 1.0})
    with pytest.raises(ValueError, match="at least one grader"):
        client.reward({})
